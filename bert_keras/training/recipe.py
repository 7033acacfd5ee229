"""Recipes: the values of a pretraining run, in a Python file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bert_keras import atomic, strict_json
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.features import PAIR_OBJECTIVES
from bert_keras.presets import PRESETS
from bert_keras.training import recipe_files
from bert_keras.training.values import JIT, Ranges

_FOLDER = Path(__file__).parent / "recipes"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainRecipe:
    """The values of a pretraining run. A recipe file defines one: `recipe = PretrainRecipe(…)`.

    Raises:
        UsageError: a value of the wrong type, out of range, or at odds with another.
    """

    # The text.
    corpus: str  # file, folder or glob; "demo": the English that CPython ships
    layout: str = "text"  # "text": running; "sentences": one a line, blank line between documents
    language: str = "en"  # ISO code, for the splitting into sentences
    field: str = "text"  # key of the text in .jsonl files
    validation_split: float = (
        0.02  # share of the documents for evaluation: one of round(1 / validation_split)
    )
    # The vocabulary.
    vocab: str = ""  # a vocab.txt to use; empty: learned from the corpus
    vocab_size: int = 16_000  # pieces to learn
    lowercase: bool = True  # drop case and accents
    # The model.
    init_checkpoint: str = ""  # checkpoint to go on from, which gives sizes, dropout and vocabulary
    config: str = "bert_mini_uncased"  # sizes of a new model: a name in bert_keras.PRESETS, or a
    # JSON file of `BertConfig.save`; `vocab_size` is the vocabulary's
    dropout: float = 0.1
    attention_dropout: float = 0.1  # fused attention kernels need 0
    max_positions: int = 0  # 0: those of config
    initializer_range: float = 0.02  # standard deviation of new weights
    output_bias: str = "frequency"  # of the MLM head at first: log frequencies of tokens; or "zero"
    # The examples.
    sequence_length: int = 128  # tokens, with [CLS] and [SEP]
    objective: str = "nsp"  # beside masked tokens: "nsp", "sop", "rtd" (ELECTRA); "mlm": nothing
    masking: str = "token"  # or "whole_word", "span"
    mask_rate: float = 0.15  # share of the tokens
    max_predictions_per_seq: int = (
        0  # most masks of an example; 0: what mask_rate gives for its length
    )
    generator_size: float = 0.25  # of "rtd": width of the generator, as a share of config's
    short_seq_prob: float = 0.1  # share of the examples that aim at a shorter length
    packed_length: int = 0  # tokens of rows of several examples, without padding; 0: one in a row
    # The optimisation.
    batch_size: int = 32
    steps: int  # batches to train on, a multiple of log_every
    learning_rate: float = 1e-4  # at the end of the warm-up
    warmup_steps: int = 0  # of the linear rise from 0
    schedule: str = "linear"  # of the fall afterwards; or "cosine", "polynomial"
    weight_decay: float = 0.01  # of kernels and tables; biases and LayerNorm have none
    clip_norm: float = 1.0  # largest norm of the gradient; 0: any
    optimizer: str = "adamw"  # or "lamb", "muon"
    gradient_accumulation_steps: int = 1  # batches whose gradients make one update
    ema_momentum: float = 0.0  # momentum of the averaged weights that are saved; 0: off
    precision: str = "float32"  # Keras dtype policy
    gradient_checkpointing: bool = False  # compute each block twice, for less memory
    loss_chunks: int = 1  # parts of the vocabulary in the loss, each computed twice: likewise
    # The run.
    seed: int = 0  # of weights, dropout and data
    log_every: int = 50  # steps of a line in metrics.jsonl
    evaluate_every: int = 10  # reports between evaluations
    eval_examples: int = 2_000  # held-out examples of an evaluation
    checkpoint_every: int = 10  # reports between checkpoints
    workers: int = 2  # that prepare data
    tensorboard: bool = False  # event files too
    export: bool = True  # a SavedModel at the end
    jit_compile: str = "auto"  # XLA: "auto" (by device), "true", "false"
    out: str = ""  # folder of the run; empty: runs/<name>
    name: str = ""  # of the run and of its folder in saved_models; empty: the recipe file's

    def __post_init__(self) -> None:
        _RANGES.check(self)
        if not self.corpus:
            _RANGES.fail("corpus", "must name a file, a folder, a glob or demo", self.corpus)
        if self.init_checkpoint:
            if self.objective == "rtd":
                _RANGES.fail(
                    "objective", "must be mlm, nsp or sop with init_checkpoint=", self.objective
                )
            object.__setattr__(self, "vocab", self.vocab or self.init_checkpoint)
        else:
            self._check_sizes()
        for name in ("log_every", "gradient_accumulation_steps"):
            if self.steps % getattr(self, name):
                _RANGES.fail(
                    "steps", f"must be a multiple of {name}={getattr(self, name)}", self.steps
                )
        if 0 < self.packed_length < self.sequence_length:
            rule = f"must be 0, or at least sequence_length={self.sequence_length}"
            _RANGES.fail("packed_length", rule, self.packed_length)
        for name, plain in (("packed_length", 0), ("loss_chunks", 1)):
            if self.objective == "rtd" and getattr(self, name) != plain:
                rule = f"must be {plain} with objective=rtd"
                _RANGES.fail(name, rule, getattr(self, name))
        if self.validation_split > 0.5:
            _RANGES.fail("validation_split", "must be at most 0.5", self.validation_split)
        if self.warmup_steps > self.steps:
            _RANGES.fail("warmup_steps", f"must be at most steps={self.steps}", self.warmup_steps)

    def sizes(self) -> BertConfig:
        """Return the sizes of a new model: those of `config`, with the recipe's own values.

        Raises:
            UsageError: no such preset or file, or sizes that no model has.
        """
        if self.config in PRESETS:
            sizes = PRESETS[self.config]
        elif (path := atomic.expanded(self.config)).suffix == ".json" and path.is_file():
            sizes = self._sizes_in(path)
        else:
            _RANGES.fail("config", "must be a JSON file or a name of PRESETS", self.config, PRESETS)
        try:
            return sizes.replace(
                vocab_size=self.vocab_size, max_positions=self.max_positions or sizes.max_positions
            )
        except ValueError as error:
            _RANGES.fail("config", f"does not fit: {error}", self.config)

    def _sizes_in(self, path: Path) -> BertConfig:
        try:
            values = strict_json.read_object(path)
            return BertConfig.from_dict({"vocab_size": self.vocab_size, **values})
        except ArtifactError as error:
            _RANGES.fail("config", f"cannot be read: {error}", self.config)
        except ValueError as error:
            _RANGES.fail("config", f"is not of a model: {error}", self.config)

    def _check_sizes(self) -> None:
        sizes = self.sizes()
        if self.objective in PAIR_OBJECTIVES and sizes.num_segments < 2:
            rule = f"must be mlm or rtd: {self.config} has no second segment for pairs"
            _RANGES.fail("objective", rule, self.objective)
        if self.objective == "rtd" and sizes.unique_layers < sizes.num_layers:
            rule = f"must not be rtd: {self.config} shares its blocks"
            _RANGES.fail("objective", rule, self.objective)
        if self.sequence_length > sizes.max_positions:
            whose = "max_positions" if self.max_positions else f"the positions of {self.config}"
            rule = f"must be at most {sizes.max_positions}, {whose}"
            _RANGES.fail("sequence_length", rule, self.sequence_length)


_OPTIONAL = ("max_positions", "max_predictions_per_seq", "packed_length", "warmup_steps", "seed")
_RANGES = Ranges(
    choices={
        "layout": ("text", "sentences"),
        "objective": ("nsp", "sop", "rtd", "mlm"),
        "masking": ("token", "whole_word", "span"),
        "output_bias": ("frequency", "zero"),
        "schedule": ("linear", "cosine", "polynomial"),
        "optimizer": ("adamw", "lamb", "muon"),
        "precision": ("float32", "mixed_bfloat16", "mixed_float16"),
        "jit_compile": tuple(JIT),
    },
    least={
        "sequence_length": 8,
        **dict.fromkeys(_OPTIONAL, 0),
    },
    bounds={"seed": 2**32},  # what NumPy's seed takes
    above_zero=(
        "learning_rate",
        "validation_split",
        "mask_rate",
        "initializer_range",
        "generator_size",
    ),
    not_shares=("learning_rate", "weight_decay", "clip_norm"),
)


def known_recipes() -> list[str]:
    """Return the names of the recipes in recipes/, sorted."""
    return recipe_files.known(_FOLDER)


def load_recipe(name_or_path: str) -> PretrainRecipe:
    """Open the recipe of a name in recipes/ or of the path of a .py file, its `name` filled in.

    Raises:
        UsageError: no such recipe, or a file that does not define one.
    """
    return recipe_files.load(name_or_path, PretrainRecipe, _FOLDER)


def quicktest(recipe: PretrainRecipe) -> PretrainRecipe:
    """The same way through a run in seconds: a tiny model, few steps, the demo corpus."""
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name or 'recipe'}_quicktest",
        out="",
        corpus="demo",
        layout="text",
        language="en",
        vocab="",
        init_checkpoint="",
        config="bert_tiny_uncased",
        max_positions=0,
        vocab_size=min(recipe.vocab_size, 1_000),
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
