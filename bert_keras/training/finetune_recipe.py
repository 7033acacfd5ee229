"""Recipes of fine-tuning: the values of a run, in a Python file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bert_keras.defaults import FINETUNING, WIDTH
from bert_keras.task_names import FINETUNED
from bert_keras.training import recipe_files
from bert_keras.training.overrides import RENAMED_TASKS
from bert_keras.training.values import JIT, Section, check, fail

FOLDER = Path(__file__).parent / "recipes" / "finetuning"
KINDS = tuple(FINETUNED)

_SEEDS = 2**32
# Tasks that a value is for.
_CHOICES, _QUESTIONS = ("multiple_choice",), ("question_answering",)
_TAGS = ("token_classification",)
_VECTORS = ("sentence_similarity", "pair_classification", "retrieval")
_TEXTS = ("text_classification", "multi_label_classification", "text_regression", *_VECTORS)
_TABLES = (*_TEXTS, *_CHOICES)
_CLASSES = ("text_classification", "pair_classification")
_LABELLED = (
    *("text_classification", "multi_label_classification"),
    *("pair_classification", "token_classification"),
)
_TOKENS = ("text_classification", "multi_label_classification", "text_regression", *_TAGS)
_WITH_DROPOUT = (*_TOKENS, *_QUESTIONS, *_CHOICES)

_data, _files, _model = Section("Task and data"), Section("Files"), Section("Model")
_teacher, _optimization, _run = Section("Distillation"), Section("Optimization"), Section("Run")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneRecipe:
    """The values of a fine-tuning run. A recipe file defines one: `recipe = FinetuneRecipe(…)`.

    Raises:
        UsageError: a value of the wrong type, out of range, or at odds with another.
    """

    # === Task and data ===
    task: str = _data("kind of examples and model", choices=KINDS)
    train: str = _data("file of examples to learn from", "")
    dev: str = _data("file to measure on; empty: validation_split of train", "")
    validation_split: float = _data(
        "share of train to measure on where there is no dev", 0.1, above_zero=True
    )
    rows: int = _data("examples of train to learn from; 0: all", 0, least=0)
    draw: bool = _data("draw those rows by data_seed; else take the first ones", True)
    dev_rows: int = _data("the first examples of dev to measure on; 0: all", 0, least=0)
    data_seed: int = _data(
        "seed of that draw: the same rows for every seed of the run", 0, least=0, bound=_SEEDS
    )
    # === Files ===
    format: str = _files(
        "format of train and dev; empty: by the ending of the file",
        "",
        choices=("", "tsv", "csv", "jsonl", "parquet", "label_text"),
        tasks=_TABLES,
    )
    header: bool = _files(
        "a table names its columns; else they are numbers from 0", True, tasks=_TABLES
    )
    quoting: str = _files(
        "quotes hold fields of a table together; auto: in CSV",
        "auto",
        choices=("auto", "true", "false"),
        tasks=_TABLES,
    )
    separator: str = _files(
        "separator of the fields of a table; empty: comma in CSV, tab in TSV", "", tasks=_TABLES
    )
    encoding: str = _files("encoding of tables", "utf-8", tasks=(*_TABLES, "token_classification"))
    text: str = _files("column of the text", "text", tasks=_TEXTS)
    pair: str = _files("column of the second text; empty: there is none", "", tasks=_TEXTS)
    label: str = _files(
        "column of the label, number or labels",
        "label",
        tasks=tuple(task for task in _TEXTS if task != "retrieval"),
    )
    label_separator: str = _files(
        "separator of the labels of a row", ",", tasks=("multi_label_classification",)
    )
    prompt: str = _files(
        "column of the text that an option is chosen for; empty: none", "prompt", tasks=_CHOICES
    )
    options: str = _files(
        "column with a list of options; or columns with commas, one option each",
        "options",
        tasks=_CHOICES,
    )
    lead: str = _files(
        "column of the words that every option begins with; empty: none", "", tasks=_CHOICES
    )
    answer: str = _files(
        "column of the right option's number from 0, or letter", "answer", tasks=_CHOICES
    )
    labels: str = _files(
        "names of the labels in order, or of the types of entities, with commas; "
        "empty: those of train, sorted",
        "",
        tasks=_LABELLED,
    )
    positive: str = _files("label that the binary F1 counts; empty: the second", "", tasks=_CLASSES)
    word_column: int = _files(
        "column of the words in files of tagged words, from 0", 0, least=0, tasks=_TAGS
    )
    tag_column: int = _files("column of the tags; -1: the last", -1, least=-(2**31), tasks=_TAGS)
    numbered_characters: bool = _files(
        "each word is a character and its number, as in Weibo NER", False, tasks=_TAGS
    )
    scheme: str = _files(
        "scheme of the tags",
        "auto",
        choices=("auto", "iob1", "bio", "bioes", "bilou", "bmes"),
        tasks=_TAGS,
    )
    repair: bool = _files(
        "read broken spans of bioes, bilou and bmes as conlleval does", False, tasks=_TAGS
    )
    max_score: float = _files(
        "the score of two texts that mean the same",
        1.0,
        above_zero=True,
        is_share=False,
        tasks=("sentence_similarity",),
    )
    language: str = _files(
        "language of answers; zh compares characters", "en", choices=("en", "zh"), tasks=_QUESTIONS
    )
    # === Model ===
    encoder: str = _model(
        "checkpoint to begin with: a folder, a run, a name of PRESETS, or hf://organisation/name",
        "",
    )
    dropout: float = _model("dropout rate of the head", 0.1, tasks=_WITH_DROPOUT)
    freeze: bool = _model(
        "train the head alone", False, tasks=(*_WITH_DROPOUT, "pair_classification")
    )
    representation: str = _model(
        "layers that the head reads",
        "last",
        choices=("last", "concat_last_4", "mix"),
        tasks=_TOKENS,
    )
    crf: bool = _model(
        "choose the tags of a text together (conditional random field)", False, tasks=_TAGS
    )
    lora: int = _model(
        "rank of LoRA adapters, which alone move in the encoder; 0: none", 0, least=0
    )
    all_pieces: bool = _model(
        "every piece of a word has its tag, not only the first", False, tasks=_TAGS
    )
    pooling: str = _model(
        "pooling of the vectors of tokens to one of the text",
        "mean",
        choices=("mean", "max", "cls", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"),
        tasks=_VECTORS,
    )
    max_length: int = _model("most tokens of a row", FINETUNING.max_length, least=8)
    stride: int = _model(
        "doc stride: pieces from one part of a text to the next", 128, tasks=_QUESTIONS
    )
    max_question: int = _model("most pieces of a question", 64, tasks=_QUESTIONS)
    max_answer: int = _model("most pieces of an answer", 30, tasks=_QUESTIONS)
    no_answer: bool = _model("a question may have no answer", False, tasks=_QUESTIONS)
    # === Distillation ===
    layers: str = _teacher(
        "layers of the encoder that are left, with commas, from 0; empty: all", ""
    )
    teacher: str = _teacher("checkpoint of a fine-tuned model of the same labels; empty: none", "")
    temperature: float = _teacher(
        "divisor of all logits before they are compared",
        2.0,
        above_zero=True,
        is_share=False,
        tasks=tuple(
            task for task in KINDS if task not in ("text_regression", "sentence_similarity")
        ),
    )
    alpha: float = _teacher("share of the loss that is the teacher's", 0.5, is_share=False)
    hidden: float = _teacher(
        "weight of the distance of last states; 0: they are not compared", 0.0, is_share=False
    )
    # === Optimization ===
    epochs: int = _optimization("passes over the examples", 3)
    batch_size: int = _optimization("examples of a batch", FINETUNING.batch_size)
    packing: bool = _optimization(
        "several examples in a row of max_length, without padding", False, tasks=_TOKENS
    )
    learning_rate: float = _optimization(
        f"learning rate at the end of the warm-up; 0: {FINETUNING.learning_rate:g}, of "
        f"token_classification {FINETUNING.tags_learning_rate:g}, and for encoders wider than "
        f"{WIDTH} lower by the square of the width",
        0.0,
        is_share=False,
    )
    warmup: float = _optimization(
        "share of the steps in which the rate rises from 0", FINETUNING.warmup
    )
    schedule: str = _optimization(
        "fall of the rate; slanted_triangular has its own rise",
        FINETUNING.schedule,
        choices=("linear", "cosine", "polynomial", "constant", "slanted_triangular"),
    )
    weight_decay: float = _optimization(
        "weight decay of kernels and tables", FINETUNING.weight_decay, is_share=False
    )
    clip_norm: float = _optimization(
        "largest norm of the gradient; 0: any", FINETUNING.clip_norm, is_share=False
    )
    optimizer: str = _optimization(
        "name of the optimizer", "adamw", choices=("adamw", "lamb", "muon")
    )
    layer_decay: float = _optimization(
        "each block's rate as a share of that above it; 0: one rate", 0.0
    )
    unfreeze_every: int = _optimization(
        "updates until the next block below moves too; 0: all at once", 0, least=0
    )
    class_weights: str = _optimization(
        "balanced: rare labels count more", "none", choices=("none", "balanced"), tasks=_CLASSES
    )
    precision: str = _optimization(
        "Keras dtype policy", "float32", choices=("float32", "mixed_bfloat16", "mixed_float16")
    )
    gradient_checkpointing: bool = _optimization("compute each block twice, for less memory", False)
    # === Run ===
    seed: int = _run("the first seed, of new weights, dropout and order", 0, least=0, bound=_SEEDS)
    seeds: int = _run("number of seeds; each trains a model", 1)
    evaluations: int = _run("evaluations in each epoch", 1)
    keep: str = _run(
        "weights to keep: of the best evaluation, or the last ones",
        "best",
        choices=("best", "last"),
    )
    patience: int = _run(
        "evaluations without a gain after which a run ends; 0: it never does", 0, least=0
    )
    metric: str = _run("metric that chooses the best weights; empty: the task's first", "")
    checkpoint_every: int = _run("evaluations between checkpoints", 1)
    workers: int = _run("threads that prepare batches", 2)
    jit_compile: str = _run("compile with XLA; auto: by device", "auto", choices=tuple(JIT))
    out: str = _run("folder of the run; empty: runs/<name>", "")
    name: str = _run("name of the run; empty: that of the recipe file", "")

    def __post_init__(self) -> None:
        if today := RENAMED_TASKS.get(self.task):
            fail("task", f"is called {today} now", self.task)
        check(self)
        if self.alpha > 1:
            fail("alpha", "must be at most 1", self.alpha)
        if not all(part.isdecimal() for part in self.layers.split(",") if self.layers):
            fail("layers", "must be numbers with commas", self.layers)
        if self.seed + self.seeds > _SEEDS:
            fail("seeds", f"must leave all seeds below {_SEEDS:,}", self.seeds)
        if self.crf and self.all_pieces:  # tags are chosen for words
            fail("all_pieces", "must be false with crf=true", self.all_pieces)
        for name in ("crf", "teacher"):  # these read rows of one example
            if self.packing and getattr(self, name):
                fail("packing", f"must be false with {name}=", self.packing)
        if self.language == "zh" and self.no_answer:
            fail("no_answer", "must be false with language='zh'", self.no_answer)
        if self.freeze and self.hidden:  # nothing that moves is behind the states
            fail("hidden", "must be 0 with freeze=true", self.hidden)
        if self.keep == "last" and self.patience:
            fail("patience", "must be 0 with keep='last'", self.patience)
        if self.task == "question_answering" and self.max_question > self.max_length - _AROUND:
            most = f"must be at most max_length={self.max_length} less {_AROUND}"
            fail("max_question", most, self.max_question)

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
_AROUND = 5  # special tokens at most, and one piece of the text


def known_finetunings() -> list[str]:
    """Return the names of the recipes in recipes/finetuning, sorted."""
    return recipe_files.known(FOLDER)


def load_finetuning(name_or_path: str) -> FinetuneRecipe:
    """Open the recipe of a name in recipes/finetuning or of a path, its `name` filled in.

    Raises:
        UsageError: no such recipe, or a file that does not define one.
    """
    return recipe_files.load(name_or_path, FinetuneRecipe, FOLDER)


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
