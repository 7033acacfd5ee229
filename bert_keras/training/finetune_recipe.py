"""Recipes of fine-tuning: the values of a run, in a Python file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bert_keras.defaults import FINETUNING
from bert_keras.training import recipe_files
from bert_keras.training.overrides import RENAMED_TASKS
from bert_keras.training.values import JIT, Ranges

_FOLDER = Path(__file__).parent / "recipes" / "finetuning"
KINDS = (
    "text_classification",
    "multi_label_classification",
    "text_regression",
    "token_classification",
    "question_answering",
    "multiple_choice",
    "sentence_similarity",
    "pair_classification",
    "retrieval",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneRecipe:
    """The values of a fine-tuning run. A recipe file defines one: `recipe = FinetuneRecipe(…)`.

    Raises:
        UsageError: a value of the wrong type, out of range, or at odds with another.
    """

    # The task and its data.
    task: str  # a name of KINDS: what is learned
    train: str = ""  # file of examples to learn from
    dev: str = ""  # file to measure on; empty: validation_split of train
    validation_split: float = 0.1  # share of train to measure on where there is no dev
    rows: int = 0  # examples of train to learn from; 0: all
    draw: bool = True  # those are drawn by data_seed; else they are the first
    dev_rows: int = 0  # the first examples of dev to measure on; 0: all
    data_seed: int = 0  # of that draw: the same rows for every seed of the run
    format: str = ""  # "tsv", "csv", "jsonl", "parquet", "label_text"; empty: by its ending
    header: bool = True  # whether a table names its columns; else they are numbers from 0
    quoting: str = "auto"  # "true", "false" or "auto" (CSV yes): quotes hold fields together
    separator: str = ""  # of the fields of a table; empty: comma in CSV, tab in TSV
    encoding: str = "utf-8"  # of tables
    text: str = "text"  # column of the text,
    pair: str = ""  # of the second text, if there is one,
    label: str = "label"  # and of the label, number or labels
    label_separator: str = ","  # what stands between the labels of "multi_label_classification"
    prompt: str = "prompt"  # column of what "multiple_choice" chooses for; empty: none,
    options: str = "options"  # of a list of them, or columns with commas, one option each,
    lead: str = ""  # of the words that every option begins with, if there are such,
    answer: str = "answer"  # and of the right one's number from 0, or letter
    labels: str = ""  # names of the labels in order, or of the types of entities, with commas;
    # empty: those of train, sorted
    positive: str = ""  # the label that a binary F1 is of
    word_column: int = 0  # of tagged words
    tag_column: int = -1
    numbered_characters: bool = False  # each word is a character and its number, as in Weibo NER
    scheme: str = "auto"  # of the tags: "iob1", "bio", "bioes", "bilou", "bmes"
    repair: bool = False  # read broken spans of the last three as conlleval does
    max_score: float = 1.0  # of the scores of "sentence_similarity": as like as can be
    language: str = "en"  # of answers: "zh" compares characters
    # The model.
    encoder: str = ""  # handle: a folder, a run, a name of PRESETS, "hf://organisation/name"
    dropout: float = 0.1  # of the head
    freeze: bool = False  # train the head alone, on what the encoder gives
    representation: str = "last"  # what the head reads: "last", "concat_last_4" or "mix" of layers
    crf: bool = False  # tags are chosen together
    lora: int = 0  # rank of adapters, which are then all that moves in the encoder; 0: none
    all_pieces: bool = False  # of a word have its tag, not only the first
    pooling: str = "mean"  # of a text's vector, where there is one; see `SentenceEncoder`
    max_length: int = FINETUNING.max_length  # tokens of a row
    stride: int = 128  # pieces from one part of a text to the next, of "question_answering"
    max_question: int = 64  # pieces of a question
    max_answer: int = 30  # pieces of an answer
    no_answer: bool = False  # whether a question may have none
    # A teacher, of which a smaller model learns; see bert_keras.Distiller.
    layers: str = ""  # the layers of the encoder that are left, with commas, from 0; empty: all
    teacher: str = ""  # handle of a fine-tuned model of the same labels; empty: none
    temperature: float = 2.0  # by which all logits are divided before they are compared
    alpha: float = 0.5  # share of the loss that is the teacher's
    hidden: float = 0.0  # weight of the distance of last states; 0: they are not compared
    # The optimisation.
    epochs: int = 3  # passes over the examples
    batch_size: int = FINETUNING.batch_size
    packing: bool = False  # several examples in a row of max_length, about batch_size in a batch
    learning_rate: float = FINETUNING.learning_rate  # at the end of the warm-up
    warmup: float = FINETUNING.warmup  # share of the steps in which the rate rises from 0
    schedule: str = FINETUNING.schedule  # of the fall; "slanted_triangular" has its own rise
    weight_decay: float = FINETUNING.weight_decay  # of kernels and tables
    clip_norm: float = FINETUNING.clip_norm  # largest norm of the gradient; 0: any
    optimizer: str = "adamw"
    layer_decay: float = 0.0  # each block's rate as a share of that above it; 0: one rate for all
    unfreeze_every: int = 0  # updates until the next block below moves too; 0: all move at once
    class_weights: str = "none"  # or "balanced": rare labels count more
    precision: str = "float32"  # Keras dtype policy
    gradient_checkpointing: bool = False  # compute each block twice, for less memory
    # The run.
    seed: int = 0  # the first one: of new weights, dropout and order
    seeds: int = 1  # how often all is done, each time with another seed
    evaluations: int = 1  # in each epoch
    keep: str = "best"  # weights of all evaluations; or "last", which are measured alone
    patience: int = 0  # evaluations without a gain after which a run ends; 0: it never does
    metric: str = ""  # what the best weights are chosen by; empty: the task's first
    checkpoint_every: int = 1  # evaluations between checkpoints
    workers: int = 2  # that prepare batches
    jit_compile: str = "auto"  # XLA: "auto" (by device), "true", "false"
    out: str = ""  # folder of the run; empty: runs/<name>
    name: str = ""  # of the run; empty: the recipe file's

    def __post_init__(self) -> None:
        if today := RENAMED_TASKS.get(self.task):
            _RANGES.fail("task", f"is called {today} now", self.task)
        _RANGES.check(self)
        if self.alpha > 1:
            _RANGES.fail("alpha", "must be at most 1", self.alpha)
        if not all(part.isdecimal() for part in self.layers.split(",") if self.layers):
            _RANGES.fail("layers", "must be numbers with commas", self.layers)
        if self.seed + self.seeds > _SEEDS:
            _RANGES.fail("seeds", f"must leave all seeds below {_SEEDS:,}", self.seeds)
        usual = usual_values()
        for names, tasks in _ONLY.items():
            for name in names.split():
                value = getattr(self, name)
                if value != usual[name] and self.task not in tasks:
                    _RANGES.fail(name, f"is for {', '.join(tasks)} alone", value)
        if self.crf and self.all_pieces:  # tags are chosen for words
            _RANGES.fail("all_pieces", "must be false with crf=true", self.all_pieces)
        for name in ("crf", "teacher"):  # these read rows of one example
            if self.packing and getattr(self, name):
                _RANGES.fail("packing", f"must be false with {name}=", self.packing)
        if self.language == "zh" and self.no_answer:
            _RANGES.fail("no_answer", "must be false with language='zh'", self.no_answer)
        if self.freeze and self.hidden:  # nothing that moves is behind the states
            _RANGES.fail("hidden", "must be 0 with freeze=true", self.hidden)
        if self.keep == "last" and self.patience:
            _RANGES.fail("patience", "must be 0 with keep='last'", self.patience)
        if self.task == "question_answering" and self.max_question > self.max_length - _AROUND:
            most = f"must be at most max_length={self.max_length} less {_AROUND}"
            _RANGES.fail("max_question", most, self.max_question)

    @property
    def of_a_teacher(self) -> str:
        """The name of a value that says how to learn from a teacher; "" where none was given."""
        usual, names = usual_values(), ("hidden", "alpha", "temperature")
        return next((name for name in names if getattr(self, name) != usual[name]), "")


def usual_values() -> dict[str, Any]:
    """Of all values that a recipe need not say."""
    return {field.name: field.default for field in dataclasses.fields(FinetuneRecipe)}


# Values that say how files are read.
READING = (
    *("format", "header", "quoting", "separator", "encoding"),
    *("text", "pair", "label", "label_separator", "prompt", "options", "lead", "answer"),
    *("word_column", "tag_column", "numbered_characters", "scheme", "repair"),
)
_SEEDS = 2**32
_VECTORS = ("sentence_similarity", "pair_classification", "retrieval")
_TEXTS = ("text_classification", "multi_label_classification", "text_regression", *_VECTORS)
_OF_TOKENS = (
    *("text_classification", "multi_label_classification"),
    *("text_regression", "token_classification"),
)
_WITH_DROPOUT = (*_OF_TOKENS, "question_answering", "multiple_choice")
# Values that say something of some tasks alone.
_ONLY = {
    "text pair": _TEXTS,
    "label": tuple(task for task in _TEXTS if task != "retrieval"),  # of which each is its own
    "format header quoting separator": (*_TEXTS, "multiple_choice"),
    "encoding": (*_TEXTS, "multiple_choice", "token_classification"),
    "label_separator": ("multi_label_classification",),
    "prompt options lead answer": ("multiple_choice",),
    "labels": (
        *("text_classification", "multi_label_classification"),
        *("pair_classification", "token_classification"),
    ),
    "positive class_weights": ("text_classification", "pair_classification"),
    "word_column tag_column numbered_characters scheme repair crf all_pieces": (
        "token_classification",
    ),
    "max_score": ("sentence_similarity",),
    "language stride max_question max_answer no_answer": ("question_answering",),
    "representation packing": _OF_TOKENS,
    "dropout": _WITH_DROPOUT,
    "freeze": (*_WITH_DROPOUT, "pair_classification"),
    "pooling": _VECTORS,
    "temperature": tuple(
        task for task in KINDS if task not in ("text_regression", "sentence_similarity")
    ),
}
_FROM_ZERO = (
    *("rows", "dev_rows", "data_seed", "word_column", "seed", "patience"),
    *("lora", "unfreeze_every"),
)
_AROUND = 5  # special tokens at most, and one piece of the text

_RANGES = Ranges(
    choices={
        "task": KINDS,
        "format": ("", "tsv", "csv", "jsonl", "parquet", "label_text"),
        "quoting": ("auto", "true", "false"),
        "scheme": ("auto", "iob1", "bio", "bioes", "bilou", "bmes"),
        "keep": ("best", "last"),
        "pooling": (
            *("mean", "max", "cls"),
            *("mean_sqrt_len_tokens", "weightedmean", "lasttoken"),
        ),
        "language": ("en", "zh"),
        "class_weights": ("none", "balanced"),
        "schedule": ("linear", "cosine", "polynomial", "constant", "slanted_triangular"),
        "representation": ("last", "concat_last_4", "mix"),
        "optimizer": ("adamw", "lamb", "muon"),
        "precision": ("float32", "mixed_bfloat16", "mixed_float16"),
        "jit_compile": tuple(JIT),
    },
    least={
        "max_length": 8,
        "tag_column": -(2**31),
        **dict.fromkeys(_FROM_ZERO, 0),
    },
    bounds={"seed": _SEEDS, "data_seed": _SEEDS},
    above_zero=("learning_rate", "validation_split", "max_score", "temperature"),
    not_shares=(
        *("learning_rate", "weight_decay", "clip_norm", "max_score"),
        *("temperature", "hidden", "alpha"),
    ),
)


def known_finetunings() -> list[str]:
    """Return the names of the recipes in recipes/finetuning, sorted."""
    return recipe_files.known(_FOLDER)


def load_finetuning(name_or_path: str) -> FinetuneRecipe:
    """Open the recipe of a name in recipes/finetuning or of a path, its `name` filled in.

    Raises:
        UsageError: no such recipe, or a file that does not define one.
    """
    return recipe_files.load(name_or_path, FinetuneRecipe, _FOLDER)


def quicktest(recipe: FinetuneRecipe) -> FinetuneRecipe:
    """The recipe with little of everything, all else as it is."""
    more: dict[str, Any] = {}
    if recipe.task == "question_answering":
        more = {"max_question": 16, "stride": 8}
    if recipe.representation == "concat_last_4":  # of more layers than its model has
        more = {"representation": "last"}
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name}_quicktest",
        rows=0,
        dev_rows=0,
        epochs=2,
        batch_size=4,
        max_length=32,
        evaluations=1,
        learning_rate=1e-3,
        layers="",
        **more,
    )
