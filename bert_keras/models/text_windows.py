"""Long texts in `fit`, `evaluate` and `predict`: windows, their metrics, a warning about cuts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras

from bert_keras.data import SupervisedExamples
from bert_keras.data.columns import values_of
from bert_keras.data.long_texts import (
    BOTH_LONG,
    LARGER,
    READS_ALL,
    TRUNCATE,
    WINDOWS,
    CutTexts,
    check_long_texts,
    reading_options,
    warn,
)
from bert_keras.data.text_ranking import RankingExamples
from bert_keras.inference.multiple_choice import ROWS
from bert_keras.inference.question_answering import MAX_QUESTION
from bert_keras.models.text_columns import TextColumns
from bert_keras.task_names import WINDOW_TASKS


class Reading(NamedTuple):
    """Options for texts that are longer than a row.

    Attributes:
        long_texts: "truncate", "windows", or None for "truncate" with a warning.
        stride: doc stride of the windows; None for the default.
    """

    long_texts: str | None = None
    stride: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of `examples_of` and of a predictor; {} for texts that are cut."""
        return reading_options(self.long_texts, self.stride)

    @property
    def of_runner(self) -> dict[str, Any]:
        """Options of `logits_of`, without values that are None."""
        values = {"long_texts": self.long_texts, "stride": self.stride}
        return {name: value for name, value in values.items() if value is not None}

    def remembered(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a predictor's options with this reading instead of that of an earlier training."""
        kept = dict(options)
        if kept.pop("long_texts", None) is not None:
            kept.pop("stride", None)
        return {**kept, **self.options}


def reading_of(task: Any, long_texts: str | None, stride: int | None) -> Reading:
    """Return how a task reads long texts: as the arguments say, else as in its last training.

    Raises:
        ValueError: a value is not valid, or the task takes no windows.
    """
    if task.takes_windows:
        return Reading(**task._reading(long_texts, stride))
    check_long_texts(long_texts, stride)
    if long_texts == WINDOWS:
        name = type(task).__name__
        if task.task_name in WINDOW_TASKS:
            reason = "always reads long texts in windows. Leave `long_texts` out."
        else:
            reason = (
                "reads each text in one row. Pass a larger max_length, or split long texts "
                'yourself. long_texts="truncate" cuts them.'
            )
        raise ValueError(f'A {name} {reason} Received: long_texts="{WINDOWS}"')
    return Reading(long_texts)


def refuse_with_features(**arguments: Any) -> None:
    """Raise `ValueError` for arguments about text that are passed with features."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(
                f"`{name}` is for text: features have their length already. Leave it out. "
                f"Received: {name}={value!r} with features or a dataset"
            )


def is_split(examples: SupervisedExamples | None) -> bool:
    """Return whether examples were made by splitting texts, so that a text may have several."""
    return examples is not None and examples.rows.sources is not None


# === A warning about texts that are cut ===


def warn_of_cut(
    task: Any, reading: Reading, *parts: tuple[TextColumns | None, SupervisedExamples | None]
) -> None:
    """Warn if texts were cut, unless the caller chose "truncate".

    Args:
        task: the task.
        reading: how it reads long texts.
        parts: texts and their examples, such as those to train and to validate on.
    """
    if reading.long_texts == TRUNCATE:
        return
    total: CutTexts | None = None
    for text, examples in parts:
        if text is not None and examples is not None:
            total = _cut(task, reading, text, examples) + total
    if total:
        warn(total)


def _cut(task: Any, reading: Reading, text: TextColumns, examples: SupervisedExamples) -> CutTexts:
    """Return how many of some texts are cut."""
    count = examples.num_texts * (examples.group or 1)
    limit, noun, advice = examples.max_length or 0, "texts", LARGER
    if task.task_name == "question_answering":
        count = len(values_of("question", text.columns[0]))  # each has several examples
        limit, noun, advice = MAX_QUESTION, "questions", "Ask shorter questions."
    elif isinstance(examples, RankingExamples):
        count, noun = examples.num_rows, "pairs"
    elif task.task_name == "multiple_choice":
        noun = ROWS
    elif task.takes_windows:
        noun = "texts" if len(text.columns) == 1 else "pairs"
        advice = BOTH_LONG if reading.long_texts == WINDOWS else READS_ALL
    return CutTexts(examples.rows.num_cut, count, limit, noun, advice)


# === Metrics of texts ===


def evaluate_texts(
    task: Any, examples: Any, verbose: Any, callbacks: Any, return_dict: bool
) -> Any:
    """Return loss and metrics of texts by the mean outputs of their windows, as `evaluate` does.

    Keras alone would measure each window.

    Args:
        task: the compiled task.
        examples: `SupervisedExamples` of the windows.
        verbose: as in Keras.
        callbacks: as in Keras; there is one batch, of all texts.
        return_dict: as in Keras.
    """
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = keras.callbacks.CallbackList(
            callbacks, add_progbar=verbose != 0, verbose=verbose, epochs=1, steps=1, model=task
        )
    callbacks.on_test_begin()
    callbacks.on_test_batch_begin(0)
    labels, weights = examples.of_texts()
    outputs = task.outputs_of(examples.rows)
    y, y_pred, sample_weight = (
        {name: keras.ops.convert_to_tensor(value) for name, value in values.items()}
        for values in (labels, outputs, weights)
    )
    task.reset_metrics()
    loss = task.compute_loss(y=y, y_pred=y_pred, sample_weight=sample_weight, training=False)
    logs = dict(task.compute_metrics(None, y, y_pred, sample_weight))
    logs = {name: float(value) for name, value in {**logs, "loss": loss}.items()}
    callbacks.on_test_batch_end(0, logs)
    callbacks.on_test_end(logs)
    if return_dict:
        return logs
    values = [logs.pop("loss"), *logs.values()]
    return values[0] if len(values) == 1 else values
