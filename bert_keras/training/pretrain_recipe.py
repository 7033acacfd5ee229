"""Recipes: the values of a pretraining run, in a Python file."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import NoReturn

from bert_keras import file_io
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.features import PAIR_LOSSES
from bert_keras.presets import PRESETS
from bert_keras.training import recipe_files
from bert_keras.training.recipe_base import RunRecipe, Section, changed, fail

FOLDER = Path(__file__).parent / "recipes"
_text, _vocabulary, _model = Section("Text"), Section("Vocabulary"), Section("Model")
_examples, _optimization, _run = Section("Examples"), Section("Optimization"), Section("Run")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainRecipe(RunRecipe):
    """The values of a pretraining run. A recipe file defines one: `recipe = PretrainRecipe(…)`.

    Raises:
        UsageError: a value of the wrong type, out of range, or at odds with another.
    """

    # === Text ===
    corpus: str = _text(
        "file, folder or glob in quotes, or a folder of `bert-keras prepare`; "
        "demo: the English that CPython ships"
    )
    layout: str = _text(
        "how the text is written in the files",
        "text",
        choices={
            "text": "running text, a paragraph on each line; it is split into sentences",
            "sentences": "one sentence on each line, a blank line between documents",
        },
    )
    language: str = _text("ISO code of the language: its rules split text into sentences", "en")
    field: str = _text("key of the text in .jsonl files", "text")
    validation_split: float = _text(
        "share of the documents for validation: one document in N, N = 1 / validation_split",
        0.02,
        above_zero=True,
    )
    # === Vocabulary ===
    vocab: str = _vocabulary(
        "vocab.txt, or a folder with a tokenizer; empty: learned from the corpus", ""
    )
    tokenizer_model: str = _vocabulary(
        "kind of a tokenizer that is learned",
        "wordpiece",
        choices={
            "wordpiece": "pieces of words, as BERT; words need spaces between them",
            "bpe": "byte-level BPE, as RoBERTa; for any text, without [UNK]",
            "unigram": "SentencePiece's unigram language model, for text without spaces",
            "char": "characters, for text without spaces",
        },
    )
    vocab_size: int = _vocabulary("entries of a vocabulary that is learned", 16_000)
    lowercase: bool = _vocabulary(
        "convert text to lower case, with wordpiece without accents", True
    )
    # === Model ===
    init_checkpoint: str = _model(
        "checkpoint to continue pretraining from; it gives sizes, dropout and vocabulary", ""
    )
    config: str = _model(
        "sizes of a new model: a name in bert_keras.PRESETS, or a JSON file of `BertConfig.save`",
        "bert_mini_uncased",
    )
    hidden_size: int = _model("width of every layer; 0: that of config", 0, least=0)
    num_layers: int = _model("transformer blocks; 0: those of config", 0, least=0)
    num_heads: int = _model("attention heads of a block; 0: those of config", 0, least=0)
    intermediate_size: int = _model(
        "width of the feed-forward layers; 0: that of config", 0, least=0
    )
    max_positions: int = _model(
        "longest sequence that the model takes; 0: that of config", 0, least=0
    )
    dropout: float = _model("dropout rate of embeddings and sublayers", 0.1)
    attention_dropout: float = _model(
        "dropout rate of attention; fused attention kernels need 0", 0.1
    )
    initializer_range: float = _model("standard deviation of new weights", 0.02, above_zero=True)
    output_bias: str = _model(
        "initial bias of the masked language model's output",
        "frequency",
        choices={
            "frequency": "the logarithm of each token's share of the corpus",
            "zero": "0 for every token",
        },
    )
    # === Examples ===
    sequence_length: int = _examples("tokens of an example, with [CLS] and [SEP]", 128, least=8)
    loss: str = _examples(
        "pretraining loss",
        "nsp",
        choices={
            "nsp": "masked tokens and next sentence prediction, as BERT",
            "sop": "masked tokens and the order of two sentences, as ALBERT",
            "rtd": "replaced token detection with a small generator, as ELECTRA",
            "mlm": "masked tokens alone, as RoBERTa",
        },
    )
    masking: str = _examples(
        "which tokens are masked together",
        "token",
        choices={
            "token": "each token by itself, as the first BERT",
            "whole_word": "all tokens of a word together",
            "span": "several neighbouring words together, as SpanBERT",
        },
    )
    mask_rate: float = _examples("share of the tokens to mask", 0.15, above_zero=True)
    max_predictions_per_seq: int = _examples(
        "most masked tokens of an example; 0: as many as mask_rate gives", 0, least=0
    )
    generator_size: float = _examples(
        "width of the generator of loss=rtd, as a share of the model's", 0.25, above_zero=True
    )
    short_seq_prob: float = _examples("share of the examples that are made shorter", 0.1)
    packed_length: int = _examples(
        "sequence packing: tokens of a row that holds several examples; 0: one example in a row",
        0,
        least=0,
    )
    # === Optimization ===
    steps: int = _optimization(
        "number of training batches, a multiple of log_every", before="learning_rate"
    )
    warmup_steps: int = _optimization(
        "steps in which the learning rate rises from 0", 0, least=0, before="schedule"
    )
    gradient_accumulation_steps: int = _optimization(
        "batches whose gradients are accumulated for one update", 1, before="precision"
    )
    ema_momentum: float = _optimization(
        "momentum of an exponential moving average of the weights, which is saved; 0: off",
        0.0,
        before="precision",
    )
    loss_chunks: int = _optimization(
        "compute the loss in this many parts of the vocabulary: less memory, more time",
        1,
        before="seed",
    )
    # === Run ===
    log_every: int = _run("steps between two lines of metrics.jsonl", 50, before="checkpoint_every")
    evaluate_every: int = _run(
        "lines of metrics.jsonl between evaluations", 10, before="checkpoint_every"
    )
    eval_examples: int = _run("number of validation examples", 2_000, before="checkpoint_every")
    tensorboard: bool = _run("also write event files for TensorBoard", False, before="jit_compile")
    export: bool = _run(
        "write a SavedModel at the end; with loss=rtd that of the discriminator's encoder",
        True,
        before="jit_compile",
    )
    name: str = changed(
        "name",
        meaning="name of the run and of its folder in saved_models; empty: that of the recipe file",
    )

    def __post_init__(self) -> None:
        """Check every value and the values that exclude each other; raise `UsageError`."""
        super().__post_init__()
        if not self.corpus:
            fail("corpus", "must name a file, a folder, a glob or demo", self.corpus)
        if self.init_checkpoint:
            if self.loss == "rtd":
                fail("loss", "must be mlm, nsp or sop with init_checkpoint=", self.loss)
            object.__setattr__(self, "vocab", self.vocab or self.init_checkpoint)
        else:
            self._check_sizes()
        recipe_files.check_learned(
            "tokenizer_model", self.tokenizer_model, self.vocab_size, self.vocab
        )
        for name in ("log_every", "gradient_accumulation_steps"):
            if self.steps % getattr(self, name):
                self._fail_multiple(name)
        if 0 < self.packed_length < self.sequence_length:
            rule = f"must be 0, or at least sequence_length={self.sequence_length}"
            fail("packed_length", rule, self.packed_length)
        for name, plain in (("packed_length", 0), ("loss_chunks", 1)):
            if self.loss == "rtd" and getattr(self, name) != plain:
                rule = f"must be {plain} with loss=rtd"
                fail(name, rule, getattr(self, name))
        if self.validation_split > 0.5:
            fail("validation_split", "must be at most 0.5", self.validation_split)
        if self.warmup_steps > self.steps:
            fail("warmup_steps", f"must be at most steps={self.steps}", self.warmup_steps)

    def _fail_multiple(self, name: str) -> NoReturn:
        """Raise `UsageError` for steps that are not a multiple of another value; name a cure."""
        number = getattr(self, name)
        nearest = max(1, round(self.steps / number)) * number
        divisor = math.gcd(self.steps, number)
        rule = f"must be a multiple of {name}={number}, such as steps={nearest}"
        fail("steps", f"{rule}; or give {name}={divisor}", self.steps)

    @property
    def own_sizes(self) -> dict[str, int]:
        """Sizes of a new model that the recipe gives in place of those of `config`."""
        return {name: getattr(self, name) for name in _SIZES if getattr(self, name)}

    def sizes(self) -> BertConfig:
        """Return the sizes of a new model: those of `config`, with the recipe's own values.

        Raises:
            UsageError: no such preset or file, or sizes that no model has.
        """
        if self.config in PRESETS:
            sizes = PRESETS[self.config]
        elif (path := file_io.expanded(self.config)).suffix == ".json" and path.is_file():
            sizes = self._sizes_in(path)
        else:
            fail("config", "must be a JSON file or a name of PRESETS", self.config, PRESETS)
        try:
            return sizes.replace(vocab_size=self.vocab_size, **self.own_sizes)
        except ValueError as error:
            fail("config", f"does not fit: {error}", self.config)

    def new_config(self, vocab_size: int) -> BertConfig:
        """Return the config of a new model: `sizes` with the recipe's other values."""
        sizes = self.sizes()
        return sizes.replace(
            vocab_size=vocab_size,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            # What is dropped between the feed-forward layers has the rate of the other layers.
            intermediate_dropout=self.dropout if sizes.intermediate_dropout else 0.0,
            initializer_range=self.initializer_range,
            pooler=self.loss in PAIR_LOSSES,  # nothing else would train it
            family="electra" if self.loss == "rtd" else sizes.family,
        )

    def _sizes_in(self, path: Path) -> BertConfig:
        """Return the model sizes in a JSON file; refuse the key `config` if they cannot be read."""
        try:
            values = file_io.read_object(path)
            return BertConfig.from_dict({"vocab_size": self.vocab_size, **values})
        except ArtifactError as error:
            fail("config", f"cannot be read: {error}", self.config)
        except ValueError as error:
            fail("config", f"is not of a model: {error}", self.config)

    def _check_sizes(self) -> None:
        """Refuse a loss or a sequence length that the sizes of the model do not allow."""
        sizes = self.sizes()
        if self.loss in PAIR_LOSSES and sizes.num_segments < 2:
            losses = "mlm or rtd" if sizes.takes_generator else "mlm"
            rule = f"must be {losses}: {self.config} has no second segment for pairs"
            fail("loss", rule, self.loss)
        if self.loss == "rtd" and sizes.unique_layers < sizes.num_layers:
            rule = f"must not be rtd: {self.config} shares its blocks"
            fail("loss", rule, self.loss)
        if self.loss == "rtd" and not sizes.takes_generator:
            rule = (
                f"must be mlm with {self.config}: the generator of rtd needs post-norm blocks, "
                "global layers, and positions in a table alone"
            )
            fail("loss", rule, self.loss)
        if self.sequence_length > sizes.max_positions:
            whose = "max_positions" if self.max_positions else f"the positions of {self.config}"
            rule = f"must be at most {sizes.max_positions}, {whose}"
            fail("sequence_length", rule, self.sequence_length)


_SIZES = ("hidden_size", "num_layers", "num_heads", "intermediate_size", "max_positions")


def known_recipes() -> list[str]:
    """Return the names of the recipes in recipes/, sorted."""
    return recipe_files.known_recipes(FOLDER)


def load_recipe(name_or_path: str) -> PretrainRecipe:
    """Open the recipe of a name in recipes/ or of the path of a .py file, its `name` filled in.

    Raises:
        UsageError: no such recipe, or a file that does not define one.
    """
    return recipe_files.load_recipe(name_or_path, PretrainRecipe, FOLDER)


def quicktest(recipe: PretrainRecipe) -> PretrainRecipe:
    """Return the recipe of a quick test: a tiny model of its kind, few steps, the demo corpus."""
    sizes = recipe.sizes()
    is_grouped = sizes.key_value_heads < sizes.num_heads  # no value changes the heads of keys
    heads = 2 * sizes.key_value_heads if is_grouped else 2
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name or 'recipe'}_quicktest",
        out="",
        corpus="demo",
        layout="text",
        language="en",
        vocab="",
        init_checkpoint="",
        hidden_size=16 * heads if is_grouped else 64,
        num_layers=2,
        num_heads=heads,
        intermediate_size=256,
        max_positions=0,
        # The text has about 100 characters.
        vocab_size=min(recipe.vocab_size, 60 if recipe.tokenizer_model == "char" else 1_000),
        sequence_length=min(recipe.sequence_length, 32),
        max_predictions_per_seq=min(recipe.max_predictions_per_seq, 5),
        packed_length=min(recipe.packed_length, 64),
        batch_size=min(recipe.batch_size, 8),
        steps=6,
        warmup_steps=min(recipe.warmup_steps, 2),
        gradient_accumulation_steps=min(recipe.gradient_accumulation_steps, 2),
        log_every=2,
        evaluate_every=1,
        eval_examples=min(recipe.eval_examples, 16),
        checkpoint_every=1,
        workers=1,
    )
