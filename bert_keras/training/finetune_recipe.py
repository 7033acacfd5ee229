"""Recipes of fine-tuning: the values of a run, in a Python file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bert_keras.task_names import FINETUNED, FINETUNING, TEXT_TASKS, WIDTH
from bert_keras.training import recipe_files
from bert_keras.training.recipe_base import RENAMED_TASKS, SEEDS, RunRecipe, Section, changed, fail

FOLDER = Path(__file__).parent / "recipes" / "finetuning"
TASK_NAMES = tuple(FINETUNED)

# Tasks that a value is for.
_CHOICES, _QUESTIONS = ("multiple_choice",), ("question_answering",)
_TAGS, _RANKING = ("token_classification",), ("text_ranking",)
_VECTORS = ("sentence_similarity", "pair_classification", "retrieval")
# Task -> its losses, the default first, and what they learn from.
_LOSSES = {
    "retrieval": {
        "in_batch": "retrieval: pairs, with or without negatives",
        "triplet": "retrieval: pairs with one negative",
    },
    "sentence_similarity": {
        "similarity": "sentence_similarity: the scores of pairs",
        "cosent": "sentence_similarity: the order of the scores",
    },
    "text_ranking": {
        "binary": "text_ranking: the relevance of each document, from 0 to 1",
        "list_net": "text_ranking: the order of a query's documents (ListNet)",
        "lambda": "text_ranking: the order, by nDCG (LambdaLoss)",
    },
}
_TABLES = (*TEXT_TASKS, *_CHOICES)
_WITH_LABELS = (*(task for task in TEXT_TASKS if task != "retrieval"), *_TAGS)
_CLASSES = ("text_classification", "pair_classification")
_FEW_SHOT = ("text_classification", "multi_label_classification")
_LABELLED = (*_CLASSES, "multi_label_classification", *_TAGS)
_WINDOWED = ("text_classification", "multi_label_classification", "text_regression")
_TOKENS = (*_WINDOWED, *_TAGS)
_WITH_DROPOUT = (*_TOKENS, *_QUESTIONS, *_CHOICES, *_RANKING)
_TAUGHT = tuple(task for task in TASK_NAMES if task not in _RANKING)


def _rate(rate: float) -> str:
    """Return a learning rate as papers write it: 1e-4."""
    return f"{rate:.0e}".replace("e-0", "e-")


_data, _files, _model = Section("Task and data"), Section("Files"), Section("Model")
_teacher, _optimization, _run = Section("Distillation"), Section("Optimization"), Section("Run")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneRecipe(RunRecipe):
    """The values of a fine-tuning run. A recipe file defines one: `recipe = FinetuneRecipe(…)`.

    Raises:
        UsageError: a value of the wrong type, out of range, or at odds with another.
    """

    # === Task and data ===
    task: str = _data("task to fine-tune for", choices=FINETUNED.keys())
    train: str = _data("file of examples to train on", "")
    dev: str = _data("file of examples to evaluate on; empty: validation_split of train", "")
    validation_split: float = _data(
        "share of train to evaluate on, without dev", 0.1, above_zero=True
    )
    rows: int = _data("examples of train to train on; 0: all", 0, least=0)
    draw: bool = _data("draw those rows at random, by data_seed; false: take the first rows", True)
    dev_rows: int = _data("first examples of dev to evaluate on; 0: all", 0, least=0)
    data_seed: int = _data(
        "seed that draws the rows, one for all seeds of the run", 0, least=0, bound=SEEDS
    )
    examples_per_label: int = _data(
        "texts of each label for few-shot training (SetFit); 0: none", 0, least=0, tasks=_FEW_SHOT
    )
    # === Files ===
    format: str = _files(
        "format of train and dev; empty: by the ending of the file",
        "",
        choices=("", "tsv", "csv", "jsonl", "parquet", "label_text"),
        tasks=_TABLES,
    )
    header: bool = _files(
        "the first row of a table names its columns; false: they are numbered from 0",
        True,
        tasks=_TABLES,
    )
    quoting: str = _files(
        "fields of a table may be in quotes; auto: in CSV alone",
        "auto",
        choices=("auto", "true", "false"),
        tasks=_TABLES,
    )
    separator: str = _files(
        "separator of the columns of a table; empty: comma in CSV, tab in TSV", "", tasks=_TABLES
    )
    encoding: str = _files(
        "text encoding of the files", "utf-8", tasks=(*_TABLES, "token_classification")
    )
    text: str = _files("column or key of the text", "text", tasks=(*TEXT_TASKS, *_TAGS))
    pair: str = _files("column of the second text; empty: there is none", "", tasks=TEXT_TASKS)
    negatives: str = _files("columns of hard negatives, with commas", "", tasks=("retrieval",))
    label: str = _files(
        "column or key of the label, number, labels or entities", "label", tasks=_WITH_LABELS
    )
    label_separator: str = _files(
        "separator of the labels of a row", ",", tasks=("multi_label_classification",)
    )
    prompt: str = _files(
        "column of the text that an option is chosen for; empty: none", "prompt", tasks=_CHOICES
    )
    options: str = _files(
        "column with a list of options; or several columns, separated by commas, an option each",
        "options",
        tasks=_CHOICES,
    )
    lead: str = _files("column of words before every option; empty: none", "", tasks=_CHOICES)
    answer: str = _files(
        "column of the right option: its number from 0, or its letter", "answer", tasks=_CHOICES
    )
    labels: str = _files(
        "names of the labels, or of the entity types, in order and separated by commas; "
        "empty: those of train, sorted",
        "",
        tasks=_LABELLED,
    )
    positive: str = _files(
        "positive label of the binary F1; empty: the second label", "", tasks=_CLASSES
    )
    word_column: int = _files(
        "column of the words in files of tagged words, from 0", 0, least=0, tasks=_TAGS
    )
    tag_column: int = _files("column of the tags; -1: the last", -1, least=-(2**31), tasks=_TAGS)
    numbered_characters: bool = _files(
        "words are characters with a number behind each, as in Weibo NER", False, tasks=_TAGS
    )
    scheme: str = _files(
        "tagging scheme; auto: found from the tags",
        "auto",
        choices=("auto", "iob1", "bio", "bioes", "bilou", "bmes"),
        tasks=_TAGS,
    )
    repair: bool = _files(
        "accept invalid tag sequences of bioes, bilou and bmes, as conlleval", False, tasks=_TAGS
    )
    misaligned: str = _files(
        "entities that begin or end within a word",
        "refuse",
        choices={"refuse": "name them by line", "widen": "take the whole words"},
        tasks=_TAGS,
    )
    max_score: float = _files(
        "highest score of the data, that of two texts with the same meaning",
        1.0,
        above_zero=True,
        is_share=False,
        tasks=("sentence_similarity",),
    )
    language: str = _files(
        "language of the answers; zh: the metrics compare characters",
        "en",
        choices=("en", "zh"),
        tasks=_QUESTIONS,
    )
    # === Model ===
    encoder: str = _model(
        "checkpoint to start from: a folder, a run, a name of PRESETS, or hf://organisation/name",
        "",
    )
    loss: str = _model(
        "loss of vectors or rankings; empty: in_batch, similarity or binary, by the task",
        "",
        choices={"": "by the task", **{k: v for each in _LOSSES.values() for k, v in each.items()}},
        tasks=tuple(_LOSSES),
    )
    dropout: float = _model("dropout rate of the head", 0.1, tasks=_WITH_DROPOUT)
    freeze: bool = _model(
        "freeze the encoder; train only the head",
        False,
        tasks=(*_WITH_DROPOUT, "pair_classification"),
    )
    representation: str = _model(
        "encoder layers that the head reads",
        "last",
        choices={
            "last": "the last layer",
            "concat_last_4": "the last four layers, concatenated",
            "mix": "a learned average of all layers, as ELMo",
        },
        tasks=_TOKENS,
    )
    crf: bool = _model("conditional random field (CRF) over the tags of a text", False, tasks=_TAGS)
    lora: int = _model(
        "rank of LoRA adapters; the encoder's own weights are then frozen; 0: no LoRA", 0, least=0
    )
    all_pieces: bool = _model(
        "tag every token of a word; false: the first token alone", False, tasks=_TAGS
    )
    pooling: str = _model(
        "pooling of the token vectors to one vector of the text",
        "mean",
        choices={
            "mean": "mean of the token vectors",
            "max": "maximum of the token vectors, by dimension",
            "cls": "vector of [CLS]",
            "mean_sqrt_len_tokens": "sum of the token vectors over the root of their number",
            "weightedmean": "mean of the token vectors, later tokens weigh more",
            "lasttoken": "vector of the last token",
        },
        tasks=(*_VECTORS, *_FEW_SHOT),
    )
    max_length: int = _model(
        "most tokens of a row; see long_texts for longer texts", FINETUNING.max_length, least=8
    )
    long_texts: str = _model(
        "how longer texts are read: truncate, or windows that overlap, whose mean logits answer; "
        "empty: truncate, and print how many texts were cut",
        "",
        choices=("", "truncate", "windows"),
        tasks=_WINDOWED,
    )
    stride: int = _model(
        "doc stride: tokens from the start of one window of a long text to the next; "
        "0: three quarters of a window, in question answering 128",
        0,
        least=0,
        tasks=(*_QUESTIONS, *_WINDOWED),
    )
    max_question: int = _model("most tokens of a question", 64, tasks=_QUESTIONS)
    max_answer: int = _model("most tokens of an answer", 30, tasks=_QUESTIONS)
    no_answer: bool = _model(
        "some questions have no answer, as in SQuAD 2.0", False, tasks=_QUESTIONS
    )
    # === Distillation ===
    layers: str = _teacher(
        "encoder layers to keep, by index from 0, separated by commas; empty: all", ""
    )
    teacher: str = _teacher(
        "checkpoint of a fine-tuned model with the same labels to learn from; empty: none",
        "",
        tasks=_TAUGHT,
    )
    temperature: float = _teacher(
        "softmax temperature of the distillation loss",
        2.0,
        above_zero=True,
        is_share=False,
        tasks=tuple(
            task for task in _TAUGHT if task not in ("text_regression", "sentence_similarity")
        ),
    )
    alpha: float = _teacher(
        "weight of the distillation loss; that of the labels has the rest", 0.5, is_share=False
    )
    hidden: float = _teacher(
        "weight of the distance between the last hidden states; 0: none", 0.0, is_share=False
    )
    # === Optimization ===
    epochs: int = _optimization("passes over the training examples", 3, before="batch_size")
    batch_size: int = changed("batch_size", FINETUNING.batch_size)
    packing: bool = _optimization(
        "sequence packing: several examples in a row of max_length, without padding",
        False,
        tasks=_TOKENS,
        before="learning_rate",
    )
    learning_rate: float = changed(
        "learning_rate",
        0.0,
        meaning=f"peak learning rate; 0: the default, {_rate(FINETUNING.learning_rate)} "
        f"(token_classification: {_rate(FINETUNING.tags_learning_rate)}), lower for encoders "
        f"wider than {WIDTH}",
        above_zero=False,
    )
    warmup: float = _optimization(
        "share of the steps in which the learning rate rises from 0",
        FINETUNING.warmup,
        before="schedule",
    )
    schedule: str = changed(
        "schedule",
        FINETUNING.schedule,
        meaning="decay of the learning rate; slanted_triangular has a warm-up of its own",
        choices=("linear", "cosine", "polynomial", "constant", "slanted_triangular"),
    )
    weight_decay: float = changed("weight_decay", FINETUNING.weight_decay)
    clip_norm: float = changed("clip_norm", FINETUNING.clip_norm)
    layer_decay: float = _optimization(
        "learning rate of each layer as a share of that of the layer above; 0: one rate for all",
        0.0,
        before="precision",
    )
    unfreeze_every: int = _optimization(
        "gradual unfreezing: updates until the next lower layer trains too; 0: all at once",
        0,
        least=0,
        before="precision",
    )
    class_weights: str = _optimization(
        "weights of the labels in the loss",
        "none",
        choices={"none": "all labels weigh the same", "balanced": "rare labels weigh more"},
        tasks=_CLASSES,
        before="precision",
    )
    # === Run ===
    seed: int = changed(
        "seed", meaning="first seed, of new weights, dropout and the order of the examples"
    )
    seeds: int = _run(
        "number of seeds; each trains a model, the best one is kept", 1, before="checkpoint_every"
    )
    evaluations: int = _run("number of evaluations in each epoch", 1, before="checkpoint_every")
    keep: str = _run(
        "weights to keep",
        "best",
        choices={"best": "those of the best evaluation", "last": "those of the last step"},
        before="checkpoint_every",
    )
    patience: int = _run(
        "stop early after this many evaluations without improvement; 0: never",
        0,
        least=0,
        before="checkpoint_every",
    )
    metric: str = _run(
        "metric that chooses the best weights; empty: the first one of the task",
        "",
        before="checkpoint_every",
    )
    checkpoint_every: int = changed(
        "checkpoint_every", 1, meaning="evaluations between checkpoints"
    )

    def __post_init__(self) -> None:
        """Check every value and the values that exclude each other; raise `UsageError`."""
        if today := RENAMED_TASKS.get(self.task):
            fail("task", f"is called {today} now", self.task)
        super().__post_init__()
        if self.alpha > 1:
            fail("alpha", "must be at most 1", self.alpha)
        if not all(part.isdecimal() for part in self.layers.split(",") if self.layers):
            fail("layers", "must be numbers with commas", self.layers)
        if self.seed + self.seeds > SEEDS:
            fail("seeds", f"must leave all seeds below {SEEDS:,}", self.seeds)
        if self.crf and self.all_pieces:  # tags are chosen for words
            fail("all_pieces", "must be false with crf=true", self.all_pieces)
        for name in ("crf", "teacher"):  # these read rows of one example
            if self.packing and getattr(self, name):
                fail("packing", f"must be false with {name}=", self.packing)
        if self.stride and self.task not in _QUESTIONS and self.long_texts != "windows":
            fail("stride", "needs long_texts=windows", self.stride)
        if self.language == "zh" and self.no_answer:
            fail("no_answer", "must be false with language='zh'", self.no_answer)
        if self.loss and self.loss not in _LOSSES[self.task]:
            fail("loss", f"must be {' or '.join(_LOSSES[self.task])} for {self.task}", self.loss)
        if self.loss in ("triplet", "cosent") and self.teacher:
            fail("loss", "must be in_batch or similarity with teacher=", self.loss)
        if self.loss == "triplet" and (not self.negatives or "," in self.negatives):
            fail("negatives", "must name one column with loss=triplet", self.negatives)
        if self.freeze and self.hidden:  # nothing that moves is behind the states
            fail("hidden", "must be 0 with freeze=true", self.hidden)
        if self.keep == "last" and self.patience:
            fail("patience", "must be 0 with keep='last'", self.patience)
        if self.task in _QUESTIONS and self.max_question > self.max_length - _AROUND:
            most = f"must be at most max_length={self.max_length} less {_AROUND}"
            fail("max_question", most, self.max_question)

    @property
    def first_distillation_key(self) -> str:
        """Name of the first value for learning from a teacher that was given; "" without one."""
        usual, names = usual_values(), ("hidden", "alpha", "temperature")
        return next((name for name in names if getattr(self, name) != usual[name]), "")


def usual_values() -> dict[str, Any]:
    """Return the default values of a recipe by name."""
    return {field.name: field.default for field in dataclasses.fields(FinetuneRecipe)}


_AROUND = 5  # special tokens at most, and one piece of the text


def known_finetunings() -> list[str]:
    """Return the names of the recipes in recipes/finetuning, sorted."""
    return recipe_files.known_recipes(FOLDER)


def load_finetuning(name_or_path: str) -> FinetuneRecipe:
    """Open the recipe of a name in recipes/finetuning or of a path, its `name` filled in.

    Raises:
        UsageError: no such recipe, or a file that does not define one.
    """
    return recipe_files.load_recipe(name_or_path, FinetuneRecipe, FOLDER)
