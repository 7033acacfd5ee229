"""Base of recipes: values that every run has, and rules that check all values."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

from bert_keras.errors import UsageError

# Keys of earlier versions -> their names today. A run folder of an earlier version is resumed
# by the new names.
RENAMED = {
    "accumulate": "gradient_accumulation_steps",
    "ema": "ema_momentum",
    "evaluation_pairs": "eval_examples",
    "held_out": "validation_split",
    "highest": "max_score",
    "jit": "jit_compile",
    "max_predictions": "max_predictions_per_seq",
    "objective": "loss",
    "preset": "config",
    "report_every": "log_every",
    "row_length": "packed_length",
    "short_probability": "short_seq_prob",
    "start": "init_checkpoint",
    "vocabulary_chunks": "loss_chunks",
}
# Likewise of the values of `task`.
RENAMED_TASKS = {
    "labels": "text_classification",
    "multi_label": "multi_label_classification",
    "scores": "text_regression",
    "entities": "token_classification",
    "questions": "question_answering",
    "choices": "multiple_choice",
    "similarity": "sentence_similarity",
    "pair_labels": "pair_classification",
}
# Names of such keys in other libraries -> our keys. A message suggests those that are known.
ALIASES: dict[str, tuple[str, ...]] = {
    "batch": ("batch_size",),
    "checkpoint": ("encoder", "init_checkpoint"),
    "data": ("train", "corpus"),
    "lr": ("learning_rate",),
    "max_grad_norm": ("clip_norm",),
    "max_seq_len": ("max_length", "sequence_length"),
    "max_seq_length": ("max_length", "sequence_length"),
    "max_steps": ("steps", "epochs"),
    "mlm_probability": ("mask_rate",),
    "model": ("encoder", "tokenizer_model", "init_checkpoint"),
    "model_type": ("tokenizer_model",),
    "num_epochs": ("epochs", "steps"),
    "num_train_epochs": ("epochs", "steps"),
    "output_dir": ("out",),
    "seq_len": ("max_length", "sequence_length"),
    "seq_length": ("max_length", "sequence_length"),
    "warmup_ratio": ("warmup", "warmup_steps"),
}
# What a value must be, by the name of its type.
VALUE_TYPES = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a run by the names of today, where an earlier version stored them."""
    today = {RENAMED.get(name, name): value for name, value in values.items()}
    if isinstance(task := today.get("task"), str):
        today["task"] = RENAMED_TASKS.get(task, task)
        if "long_texts" not in today and today["task"] != "question_answering":
            today.pop("stride", None)  # it was 128 for all tasks, and only this one read it
    return today


def nearest(word: str, known: Collection[str]) -> str:
    """Return a sentence that suggests the known words most like `word`; empty where none is."""
    word = word.lstrip("-")
    matches = [name for name in ALIASES.get(word, ()) if name in known]
    matches = matches or difflib.get_close_matches(word, known, n=1)
    return f" Did you mean {' or '.join(map(repr, matches))}?" if matches else ""


# === Declared values ===


# The words for XLA in a recipe, and what Keras's `compile` calls them.
JIT: dict[str, Any] = {"auto": "auto", "true": True, "false": False}

_RULE = "rule"  # key of a field's metadata


@dataclasses.dataclass(frozen=True)
class Rule:
    """Range and meaning of a value.

    Attributes:
        section: the heading that help shows the value under.
        meaning: a phrase for help.
        choices: the words that a text may be, or a dictionary of them and their meanings; () for
            any text.
        least: smallest whole number that is allowed.
        bound: whole numbers must be smaller than this.
        above_zero: whether a number must be above 0.
        is_share: whether a number must be below 1.
        tasks: fine-tuning tasks that the value is for; () for all.
        before: name of the shared value that follows this one in files and help.
    """

    section: str
    meaning: str
    choices: Collection[str] = ()
    least: int = 1
    bound: int = 2**31
    above_zero: bool = False
    is_share: bool = True
    tasks: tuple[str, ...] = ()
    before: str = ""


class Section:
    """Factory of the dataclass fields of one section of a recipe.

    Args:
        title: heading of the section in help.
    """

    def __init__(self, title: str):
        self._title = title

    def __call__(self, meaning: str, default: Any = dataclasses.MISSING, **rules: Any) -> Any:
        """Return a field for a value.

        Args:
            meaning: a phrase for help.
            default: without one, a recipe must give the value.
            rules: attributes of `Rule`.
        """
        rule = Rule(self._title, meaning, **rules)
        if default is dataclasses.MISSING:
            return dataclasses.field(metadata={_RULE: rule})
        return dataclasses.field(default=default, metadata={_RULE: rule})


def rules_of(recipe: Any) -> Iterator[tuple[dataclasses.Field[Any], Rule]]:
    """Yield the fields of a class of recipes, or of a recipe, with their rules.

    The order is that of `run.json` and of help: each shared value follows those that are declared
    `before` it. A dataclass would put all values of its base first.
    """
    rules = {field: field.metadata[_RULE] for field in dataclasses.fields(recipe)}
    recipe_class = recipe if isinstance(recipe, type) else type(recipe)
    is_run = issubclass(recipe_class, RunRecipe)
    shared = {field.name for field in dataclasses.fields(RunRecipe)} if is_run else set[str]()
    for field, rule in rules.items():
        if field.name not in shared and not rule.before:
            yield field, rule
    for field, rule in rules.items():
        if field.name in shared:
            yield from (pair for pair in rules.items() if pair[1].before == field.name)
            yield field, rule


def check_values(recipe: Any) -> None:
    """Check all values of a frozen recipe; whole numbers become numbers where those are.

    Raises:
        UsageError: a value of the wrong type, out of range, or for other tasks.
    """
    for field, rule in rules_of(recipe):
        type_name, value = str(field.type), getattr(recipe, field.name)
        if type_name == "float" and type(value) is int:
            object.__setattr__(recipe, field.name, value := float(value))
        if type(value).__name__ != type_name:
            fail(field.name, f"must be {VALUE_TYPES[type_name]}", value)
        if type_name in ("int", "float"):
            _check_number(field.name, value, rule)
        elif rule.choices and value not in rule.choices:
            words = ", ".join(rule.choices)
            fail(field.name, f"must be one of {words}", value, rule.choices)
    for field, rule in rules_of(recipe):
        value = getattr(recipe, field.name)
        if rule.tasks and value != field.default and recipe.task not in rule.tasks:
            fail(field.name, f"is for {', '.join(rule.tasks)} alone", value)


def _check_number(name: str, value: float, rule: Rule) -> None:
    """Raise `UsageError` if a number of a recipe is outside the limits of its rule."""
    if isinstance(value, int):
        if value < rule.least:
            fail(name, f"must be at least {rule.least}", value)
        if value >= rule.bound:
            fail(name, f"must be below {rule.bound:,}", value)
        return
    low = "above 0" if rule.above_zero else "at least 0"
    high = "below 1" if rule.is_share else "finite"
    limit = 1.0 if rule.is_share else math.inf
    if not (0 <= value < limit) or (value == 0.0 and rule.above_zero):
        fail(name, f"must be {low} and {high}", value)


def fail(name: str, rule: str, value: object, choices: Collection[str] = ()) -> NoReturn:
    """Raise the one message of a bad value; `choices`: words like it are suggested."""
    near = nearest(value, choices) if isinstance(value, str) and value not in choices else ""
    raise UsageError(f"{name} {rule}. Received: {name}={value!r}.{near}")


# === Values that every run has ===


_optimization, _run = Section("Optimization"), Section("Run")
SEEDS = 2**32  # seeds are below it


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRecipe:
    """The values that pretraining and fine-tuning share.

    A subclass declares its own values, and changes a shared one with `changed`. The defaults here
    are those of pretraining.

    Raises:
        UsageError: a value of the wrong type or out of range.
    """

    # === Optimization ===
    batch_size: int = _optimization("examples of a batch", 32)
    learning_rate: float = _optimization(
        "peak learning rate, at the end of the warm-up", 1e-4, above_zero=True, is_share=False
    )
    schedule: str = _optimization(
        "decay of the learning rate after the warm-up",
        "linear",
        choices=("linear", "cosine", "polynomial"),
    )
    weight_decay: float = _optimization(
        "weight decay of kernels and embeddings; biases and LayerNorm have none",
        0.01,
        is_share=False,
    )
    clip_norm: float = _optimization(
        "largest norm of the gradient; 0: no clipping", 1.0, is_share=False
    )
    optimizer: str = _optimization(
        "name of the optimizer", "adamw", choices=("adamw", "lamb", "muon")
    )
    precision: str = _optimization(
        "Keras dtype policy", "float32", choices=("float32", "mixed_bfloat16", "mixed_float16")
    )
    gradient_checkpointing: bool = _optimization(
        "recompute activations in the backward pass: less memory, more time", False
    )
    # === Run ===
    seed: int = _run("seed of weights, dropout and data", 0, least=0, bound=SEEDS)
    checkpoint_every: int = _run("lines of metrics.jsonl between checkpoints", 10)
    workers: int = _run("threads or processes that prepare data", 2)
    jit_compile: str = _run(
        "compile with XLA; auto: as the backend and device allow", "auto", choices=tuple(JIT)
    )
    override: str = _run(
        "values that may differ when a started run goes on, with commas: steps or epochs, "
        "learning_rate, backend",
        "",
    )
    out: str = _run("folder of the run; empty: runs/<name>", "")
    name: str = _run("name of the run; empty: that of the recipe file", "")

    def __post_init__(self) -> None:
        """Check the type and the range of every value; raise `UsageError`."""
        check_values(self)

    def values(self) -> dict[str, Any]:
        """Return the values by name, in the order of `run.json`."""
        return {field.name: getattr(self, field.name) for field, _ in rules_of(self)}


def changed(name: str, default: Any = dataclasses.MISSING, **rules: Any) -> Any:
    """Declare a value of `RunRecipe` again, with another default or other rules.

    Args:
        name: name of the value.
        default: default of the value; that of `RunRecipe` if it is left out.
        rules: attributes of `Rule` that differ.
    """
    field = next(field for field in dataclasses.fields(RunRecipe) if field.name == name)
    rule = dataclasses.replace(field.metadata[_RULE], **rules)
    default = field.default if default is dataclasses.MISSING else default
    return dataclasses.field(default=default, metadata={_RULE: rule})
