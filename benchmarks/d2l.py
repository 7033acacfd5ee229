"""Pretraining of the small BERT of d2l.ai, beside our recipe with the same data and 50 steps.

    python -m benchmarks.d2l --data DIR [--seeds 3] [--out d2l.json]
    python -m benchmarks.d2l --data DIR --tune [key=value …]
    python -m benchmarks.d2l --data DIR --prepare FOLDER
    python -m benchmarks.d2l --quick

DIR holds valid.txt, the training text, and test.txt, the validation text. Text and vocabulary
follow the book "Dive into Deep Learning" (d2l.ai, chapter "Pretraining BERT"). A document is a line
with at least two sentences, in lower case, split at " . ". The vocabulary has the words that occur
at least five times. Masks and sentence pairs come from `PretrainingExamples`, and are the same for
all contenders. Both losses are measured as means over the training steps, as in the book, and on
the validation text.

--tune trains only our recipe, changed by key=value, on seven eighths of valid.txt. It measures the
recipe on the last eighth, so that settings are not chosen on test.txt. --prepare writes the corpus
for `bert-keras pretrain`.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from rich.console import Console
from rich.table import Table

from benchmarks import report
from bert_keras import Tokenizer, data, file_io
from bert_keras.data import Corpus, PretrainingExamples
from bert_keras.layers import MaskedLMHead, PairHead, Pooler, TransformerBlock
from bert_keras.layers.core import ReversibleEmbedding
from bert_keras.models.fill_mask import TokenAccuracy, TokenLoss
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from bert_keras.training import PretrainRecipe, pretrain_setup
from bert_keras.training.pretrain_recipe import load_recipe
from bert_keras.training.pretrain_setup import build_task, start_from_frequencies, task_to_train
from bert_keras.training.recipe_files import parse_overrides

# === The network of d2l.ai's small BERT, built from our layers and trained as in the book ===


_LENGTH, _WIDTH, _INNER, _HEADS, _BLOCKS, _DROPOUT, _EPSILON = 64, 128, 256, 2, 2, 0.2, 1e-5


def book_network(vocab_size: int, seed: int) -> keras.Model:
    """Build the network of the book from our layers, with PyTorch's initial weights.

    The embeddings have no layer normalisation and no dropout. All activations are ReLU. The output
    layer has its own table, which is not tied to the token embeddings. Embeddings are drawn from
    N(0, 1). Kernels and biases are uniform within 1 / sqrt(inputs) of zero, PyTorch's default for
    linear layers.

    Args:
        vocab_size: entries of the vocabulary.
        seed: seed of the weights.
    """
    lengths = {"token_ids": _LENGTH, "segment_ids": _LENGTH, "padding_mask": _LENGTH}
    inputs = {name: keras.Input((n,), dtype="int32", name=name) for name, n in lengths.items()}
    inputs["mask_positions"] = keras.Input((None,), dtype="int32", name="mask_positions")
    positions = ops.cumsum(ops.ones_like(inputs["token_ids"]), axis=1) - 1
    rows = (inputs["token_ids"], inputs["segment_ids"], positions)
    sizes = {"tokens": vocab_size, "segments": 2, "positions": _LENGTH}
    x: Any = 0.0
    for (name, size), numbers in zip(sizes.items(), rows, strict=True):
        x += keras.layers.Embedding(size, _WIDTH, name=name)(numbers)
    for number in range(_BLOCKS):
        block = TransformerBlock(
            *(_WIDTH, _HEADS, _INNER, "relu", _EPSILON, _DROPOUT, _DROPOUT), name=f"block_{number}"
        )
        x = block(x, inputs["padding_mask"])
    table = ReversibleEmbedding(vocab_size, _WIDTH, name="output_table")
    outputs = {
        "mlm": MaskedLMHead(table, "relu", _EPSILON, name="mlm")(x, inputs["mask_positions"]),
        "nsp": PairHead(name="nsp")(Pooler(_WIDTH, name="pooler")(x)),
    }
    model = keras.Model(inputs, outputs)
    draw_as_pytorch(model, np.random.default_rng(seed))
    return model


def draw_as_pytorch(model: keras.Model, rng: np.random.Generator) -> None:
    """Assign random weights to `book_network`, except to its layer normalisations."""
    inputs = {
        w.path.removesuffix("kernel"): w.shape[0] for w in model.weights if "kernel" in w.path
    }
    for weight in model.weights:
        if weight.path.startswith(("tokens/", "segments/", "positions/")):
            weight.assign(rng.normal(size=weight.shape))
        elif weight.path.endswith(("kernel", "bias", "embeddings")):
            fan_in = inputs.get(weight.path.removesuffix("kernel").removesuffix("bias"), _WIDTH)
            weight.assign(rng.uniform(-1, 1, size=weight.shape) / np.sqrt(fan_in))


def compile_as_book(model: keras.Model, rate: float) -> None:
    """Compile the network as in the book: Adam with a constant rate, the sum of both losses."""
    pair_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.Adam(rate, epsilon=1e-8),
        loss={"mlm": TokenLoss(), "nsp": pair_loss},
        weighted_metrics={"nsp": [TokenAccuracy()]},
    )


RECIPE = "d2l_wikitext2"
PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch")
# The learning rates of two editions of the book.
RATES = (1e-2, 1e-3)
# Keys of the result files. "held_out" is the earlier name of the validation text.
LOSSES = ("train_mlm", "train_nsp", "held_out_mlm", "held_out_nsp")
# Target: at least so much below the losses of the book's settings.
WANTED = {"held_out_mlm": 0.3, "held_out_nsp": 0.1}
_MIN_COUNT = 5  # minimum occurrences of a word of the vocabulary
_UNKNOWN = "<unk>"  # unknown words in the text
_VALIDATION_ROWS = 256  # largest batch: the rows of an incomplete last batch are not measured
_QUICK_STEPS = 2

Paragraphs = list[list[list[str]]]  # of sentences of words
Figures = dict[str, float]


def paragraphs(text: str) -> Paragraphs:
    """Split a text as in the book, into lower-case lines of at least two sentences."""
    lines = (line.strip().lower().split(" . ") for line in text.splitlines() if " . " in line)
    return [[sentence.split() for sentence in line] for line in lines]


def vocabulary(text: Paragraphs) -> list[str]:
    """Return BERT's special tokens and the frequent words of a text, by falling frequency."""
    counts = collections.Counter(word for line in text for sentence in line for word in sentence)
    words = [word for word, count in counts.most_common() if count >= _MIN_COUNT]
    return [*SPECIAL_TOKENS, *(word for word in words if word != _UNKNOWN)]


@dataclasses.dataclass(frozen=True)
class Parts:
    """Training text and validation text, with the vocabulary of the training text."""

    tokenizer: Tokenizer
    train: Corpus
    validation: Corpus

    @classmethod
    def of(cls, train: Paragraphs, validation: Paragraphs) -> Parts:
        """Build the vocabulary of `train`, and encode both texts with it."""
        tokenizer = Tokenizer(vocabulary(train))
        ids = {word: number for number, word in enumerate(tokenizer.vocabulary)}

        def corpus(text: Paragraphs) -> Corpus:
            return Corpus.from_ids(
                [[ids.get(word, tokenizer.unk_id) for word in sentence] for sentence in line]
                for line in text
            )

        return cls(tokenizer, corpus(train), corpus(validation))

    def examples(self, recipe: PretrainRecipe, validation: bool = False) -> PretrainingExamples:
        """Return the pretraining examples of one text.

        The validation examples are the same for all seeds.

        Args:
            recipe: recipe with the sizes of rows and batches.
            validation: whether to take the validation text instead of the training text.
        """
        return PretrainingExamples(
            self.validation if validation else self.train,
            self.tokenizer,
            sequence_length=recipe.sequence_length,
            batch_size=min(recipe.batch_size, _VALIDATION_ROWS)
            if validation
            else recipe.batch_size,
            short_seq_prob=recipe.short_seq_prob,
            seed=0 if validation else recipe.seed,
        )

    def unigram_loss(self) -> float:
        """Return the MLM loss of a unigram model: word frequencies predict the validation text."""
        special, size = self.tokenizer.special_ids, self.tokenizer.vocab_size
        return pretrain_setup.cross_entropy(
            self.train.tokens, self.validation.tokens, special, size
        )

    def save(self, folder: Path) -> None:
        """Write both texts and the tokenizer as `bert-keras prepare` does."""
        data.require_vacant(folder)
        made_by = {key: getattr(self.tokenizer, key) for key in ("fingerprint", "vocab_size")}
        lengths = np.array([len(f"{word} ".encode()) for word in self.tokenizer.vocabulary])
        corpora = (self.train, self.validation)
        for name, corpus in zip(data.SPLIT_FOLDERS.values(), corpora, strict=True):
            (folder / name).mkdir(parents=True)
            arrays = (corpus.tokens, corpus.sentence_starts, corpus.document_starts)
            for file, values in zip(corpus.manifest["files"], arrays, strict=True):
                values.tofile(folder / name / file)
            counts = {**corpus.manifest["counts"], "text_bytes": int(lengths[corpus.tokens].sum())}
            manifest = {**corpus.manifest, "tokenizer": made_by, "counts": counts}
            file_io.write_json(folder / name / data.MANIFEST, manifest)
        self.tokenizer.save_to_preset(folder)


def book(rate: float, recipe: PretrainRecipe, parts: Parts) -> keras.Model:
    """Return the compiled network of the book, with Adam at this constant rate."""
    model = book_network(parts.tokenizer.vocab_size, recipe.seed)
    compile_as_book(model, rate)
    return model


def ours(recipe: PretrainRecipe, parts: Parts) -> keras.Model:
    """Return the compiled model of the recipe, as `bert-keras pretrain` builds it."""
    size = parts.tokenizer.vocab_size
    task = build_task(recipe, size)
    if recipe.output_bias == "frequency":
        special = parts.tokenizer.special_ids
        start_from_frequencies(task, pretrain_setup.log_shares(parts.train.tokens, special, size))
    return task_to_train(recipe, task)


def measured(
    prepared: Callable[[PretrainRecipe, Parts], keras.Model], recipe: PretrainRecipe, parts: Parts
) -> Figures:
    """Train one contender for the steps of the recipe and measure it on the validation text."""
    keras.utils.set_random_seed(recipe.seed)
    model = prepared(recipe, parts)
    begin = time.perf_counter()
    history = model.fit(
        data.dataset(parts.examples(recipe), repeat=True, workers=1),
        steps_per_epoch=recipe.steps,
        shuffle=False,
        verbose=0,  # pyright: ignore[reportArgumentType]
    ).history
    seconds = time.perf_counter() - begin
    validation = parts.examples(recipe, validation=True)
    batches = data.dataset(validation, steps=validation.num_batches(0))
    after = model.evaluate(batches, return_dict=True, verbose=0)
    return {
        "train_mlm": float(history["mlm_loss"][-1]),
        "train_nsp": float(history["nsp_loss"][-1]),
        "held_out_mlm": float(after["mlm_loss"]),
        "held_out_nsp": float(after["nsp_loss"]),
        "held_out_nsp_accuracy": float(after["nsp_accuracy"]),
        "seconds": seconds,
    }


def contenders() -> dict[str, Callable[[PretrainRecipe, Parts], keras.Model]]:
    """Return the functions that build each contender's model, by name."""
    books = {f"d2l.ai, Adam {rate:g}": functools.partial(book, rate) for rate in RATES}
    return {**books, f"recipe {RECIPE}": ours}


def in_turn(names: list[str], seeds: int) -> list[tuple[str, int]]:
    """Return names and seeds in the order of the runs.

    The runs of the first and the last name come first, because these two are compared.
    """
    compared = list(dict.fromkeys((names[0], names[-1])))
    others = [name for name in names if name not in compared]
    return [(name, seed) for group in (compared, others) for seed in range(seeds) for name in group]


def means(rounds: list[Figures]) -> Figures:
    """Return the mean of each figure over the seeds."""
    return {name: statistics.mean(figures[name] for figures in rounds) for name in rounds[0]}


def _heading(key: str) -> str:
    """Return the heading of a key of the result files."""
    return key.replace("held_out", "validation").replace("_", " ")


def show(results: dict[str, list[Figures]], console: Console) -> dict[str, float]:
    """Print the table, and return by how much each loss of the last contender is lower.

    The losses are compared with those of the first contender.

    Args:
        results: figures of each run, by contender.
        console: where the table is printed.

    Returns:
        Differences by loss; an empty dict with a single contender.
    """
    headings = [_heading(name) for name in (*LOSSES, "held_out_nsp_accuracy", "seconds")]
    table = Table("contender", "seed", *headings)
    for name, rounds in results.items():
        for seed, figures in [*enumerate(rounds), ("mean", means(rounds))]:
            cells = (f"{figures[key]:.3f}" for key in (*LOSSES, "held_out_nsp_accuracy"))
            table.add_row(name, str(seed), *cells, f"{figures['seconds']:.0f}")
        table.add_section()
    console.print(table)
    if len(results) == 1:
        return {}
    first, *_, last = map(means, results.values())
    lower = {loss: first[loss] - last[loss] for loss in LOSSES}
    for loss, wanted in WANTED.items():
        verdict = "reached" if lower[loss] >= wanted else "MISSED"
        console.print(f"{_heading(loss)}: {lower[loss]:.3f} lower; wanted {wanted}: {verdict}")
    return lower


def made_up() -> str:
    """Return lines of random words, for a quick run."""
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(20)]
    sentences = (" ".join(rng.choice(words, 9)) for _ in range(400))
    return "\n".join(f"{one} . {other} ." for one, other in zip(sentences, sentences, strict=True))


def main() -> None:
    """Train all contenders, print a table, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.d2l", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--data", type=Path, help="folder of valid.txt and test.txt")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tune", nargs="*", metavar="key=value", help="measure on a part of train")
    parser.add_argument("--prepare", type=Path, help="write the corpus into this new folder")
    parser.add_argument("--quick", action="store_true", help="made-up text, two steps, one seed")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    recipe = load_recipe(RECIPE)
    if options.quick:
        options.seeds = 1
        recipe = dataclasses.replace(
            recipe, batch_size=32, steps=_QUICK_STEPS, log_every=1, warmup_steps=1
        )
        train = validation = paragraphs(made_up())
    elif options.data:
        train, validation = (
            paragraphs((options.data / name).read_text(encoding="utf-8"))
            for name in ("valid.txt", "test.txt")
        )
    else:
        parser.error("--data DIR, or --quick")
    entrants = contenders()
    if options.tune is not None:
        values = parse_overrides(options.tune, dataclasses.asdict(recipe))
        recipe = dataclasses.replace(recipe, **values)
        split = len(train) * 7 // 8
        train, validation = train[:split], train[split:]
        entrants = {"recipe": ours}
    parts = Parts.of(train, validation)
    if options.prepare:
        parts.save(options.prepare)
        return
    facts: dict[str, Any] = {
        "recipe": dataclasses.asdict(recipe),
        "vocab_size": parts.tokenizer.vocab_size,
        "held_out_unigram_cross_entropy": parts.unigram_loss(),
        "results": (results := {name: [] for name in entrants}),
    }
    command = report.command("d2l", sys.argv[1:])
    for name, seed in in_turn(list(entrants), options.seeds):
        figures = measured(entrants[name], dataclasses.replace(recipe, seed=seed), parts)
        results[name].append(figures)
        losses = ", ".join(f"{loss} {figures[loss]:.3f}" for loss in LOSSES)
        console.print(f"seed {seed}, {name}: {losses}", soft_wrap=True)
        report.write(options.out, command, PACKAGES, **facts)
    facts["lower"] = show(results, console)
    report.write(options.out, command, PACKAGES, **facts)


if __name__ == "__main__":
    main()
