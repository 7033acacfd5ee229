"""`fit`, `evaluate` and `predict` of tasks that take text as well as features."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_keras import features
from bert_keras.data import SupervisedExamples, dataset, length_multiple
from bert_keras.data.columns import texts_of, values_of
from bert_keras.data.supervised import validation_split as split_rows
from bert_keras.inference.base import PredictorConfig
from bert_keras.models.base import WithoutUnused
from bert_keras.models.compiling import ChecksLosses, compile_for, steps_of, with_class_weights
from bert_keras.models.text_columns import TextColumns, find_text, report_coverage, weights_by_name
from bert_keras.models.with_tokenizer import WithTokenizer, checked_length
from bert_keras.task_names import FINETUNING

_HOW_TO_MAKE_FEATURES = (
    "Pass a dictionary of arrays by input name, or batches of them: bert_keras.data.encode and "
    "bert_keras.data.PretrainingExamples make them from text."
)


class FitsText(WithTokenizer, ChecksLosses, WithoutUnused):
    """Mixin of tasks: `fit`, `evaluate` and `predict` take text, and `fit` compiles by default."""

    takes_sample_weight: ClassVar[bool] = True  # of texts; features always have sample weights

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode texts and targets to examples.

        Args:
            columns: columns of text, in the order of `text_inputs`.
            y: targets, one for each text; None where the task has none.
            options: `max_length`, the largest number of tokens in a row; `class_weights` by name,
                where the labels of the task are classes; and those of `SupervisedExamples`.

        Raises:
            DataError: a row is no text or has no target; the message names the row.
        """
        del columns, y, options
        raise ValueError(
            f"A {type(self).__name__} takes features, not text. {_HOW_TO_MAKE_FEATURES}"
        )

    def logits_of(self, columns: Sequence[Any], batch_size: int | None = None) -> Any:
        """Return the outputs for texts, in the order of the texts; see `predict`."""
        del columns, batch_size
        raise ValueError(
            f"A {type(self).__name__} takes features, not text. {_HOW_TO_MAKE_FEATURES}"
        )

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int = 1,
        *,
        learning_rate: float | None = None,
        max_length: int | None = None,
        seed: int = 0,
    ) -> Any:
        """Train on text or features, as Keras's `fit`.

        Text is tokenised once. Each epoch reads every example in an order of its own, in batches of
        texts of similar length. A task that was not compiled is compiled by its first `fit`: its
        `loss_and_metrics()`, and AdamW with warm-up and linear decay over the steps of this `fit`.
        Every later `fit` begins a new schedule. One printed line says so.

        Args:
            x: text: a list, NumPy array, pandas Series, Arrow array, column of a
                `datasets.Dataset`, or `tf.data.Dataset` of strings. Several columns (pairs;
                questions and contexts; prompts and options) are a tuple, a dictionary or a
                DataFrame. Or features, a dataset or generator, as in Keras.
            y: targets: names or indices of labels, numbers, tags of words, answers.
            batch_size: examples in a batch; None for 32.
            epochs: as in Keras.
            verbose: as in Keras; 0 also leaves the line about `compile` out.
            callbacks: as in Keras. With a callback that sets the learning rate, the compiled rate
                is constant.
            validation_split: share of the texts to validate on, drawn at random; pairs of one first
                text stay together. (Of features the last rows, as in Keras.)
            validation_data: (x, y) or (x, y, sample_weight) of text, or as in Keras.
            shuffle: False to keep the order of the texts.
            class_weight: weight of each class, by name or index.
            sample_weight: weight of each text.
            initial_epoch: as in Keras.
            steps_per_epoch: as in Keras.
            validation_steps: as in Keras.
            validation_batch_size: as in Keras.
            validation_freq: as in Keras.
            learning_rate: highest rate of a task that the caller did not compile; None for the
                default of the task and the encoder's width (docs/training_with_fit.md).
            max_length: largest number of tokens in a text or pair; None for that of the last
                training, or 128. Longer texts are cut.
            seed: seed of the order of the texts and of `validation_split`.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            DataError: a row is no text, or a target is bad; the message names the row.
            ValueError: text for a task without a tokenizer.
        """
        _refuse_targets_of_a_generator(x, y)
        text = find_text(x, self.text_inputs)
        arguments: dict[str, Any] = {
            "epochs": epochs,
            "verbose": verbose,
            "callbacks": callbacks,
            "initial_epoch": initial_epoch,
            "validation_steps": validation_steps,
            "validation_batch_size": validation_batch_size,
            "validation_freq": validation_freq,
        }
        if text is None:
            if max_length is not None:
                raise ValueError(
                    "`max_length` is for text: features have their length already. Leave it out. "
                    f"Received: max_length={max_length} with features or a dataset"
                )
            if class_weight is not None:
                names = self._class_names()
                x, sample_weight = with_class_weights(x, y, sample_weight, class_weight, names)
            arguments |= {
                "batch_size": batch_size,
                "validation_split": validation_split,
                "validation_data": validation_data,
                "sample_weight": sample_weight,
                "steps_per_epoch": steps_per_epoch,
            }
            if not shuffle:  # True is left out: `DirectModel.fit` sets it for datasets of ours
                arguments["shuffle"] = False
            steps = steps_per_epoch or steps_of(x, batch_size, validation_split)
            self._compile_for(steps, epochs - initial_epoch, callbacks, verbose, learning_rate)
            return super().fit(x, y, **arguments)
        # === Text ===
        columns, y, sample_weight = _with_targets(text, y, sample_weight)
        length = self._length(max_length)
        encode = functools.partial(self._encoded, max_length=length)
        size = batch_size or FINETUNING.batch_size
        validation_text = None
        if validation_data is not None:
            validation_data, validation_text = self._validation_text(validation_data)
        elif validation_split:
            count, keys = len(columns[0]), self.split_together(columns)
            training, validation = split_rows(count, validation_split, seed=seed, firsts=keys)
            validation_text = _rows_of(columns, y, sample_weight, validation)
            columns, y, sample_weight = _rows_of(columns, y, sample_weight, training)
        if validation_text is not None:
            validation_data = dataset(
                encode(*validation_text, batch_size=validation_batch_size or size, seed=None)
            )
            arguments["validation_batch_size"] = None
        arguments["validation_data"] = validation_data
        order_seed = seed if shuffle else None
        examples = encode(
            columns, y, sample_weight, batch_size=size, seed=order_seed, class_weight=class_weight
        )
        report_coverage(self.required_tokenizer(), columns, examples.rows.token_ids, verbose)
        steps = steps_per_epoch or examples.num_batches(0)
        self._compile_for(steps, epochs - initial_epoch, callbacks, verbose, learning_rate)
        self.predictor_config = PredictorConfig(
            length, self.predictor_config.options, len(columns) > 1
        )
        batches = dataset(examples, repeat=steps_per_epoch is not None, epoch=initial_epoch)
        if steps_per_epoch is not None:
            arguments["steps_per_epoch"] = steps_per_epoch
        return super().fit(batches, **arguments)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Return loss and metrics of text or features, as Keras's `evaluate`; see `fit`."""
        options: dict[str, Any] = {
            "verbose": verbose,
            "steps": steps,
            "callbacks": callbacks,
            "return_dict": return_dict,
            **kwargs,
        }
        _refuse_targets_of_a_generator(x, y)
        text = find_text(x, self.text_inputs)
        if text is None:
            return super().evaluate(x, y, batch_size, sample_weight=sample_weight, **options)
        if not self.compiled:
            compile_for(self, None, 1, None, 0)
        columns, y, sample_weight = _with_targets(text, y, sample_weight)
        size = batch_size or FINETUNING.batch_size
        examples = self._encoded(
            columns, y, sample_weight, max_length=self._length(None), batch_size=size, seed=None
        )
        return super().evaluate(dataset(examples), **options)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Return the outputs for text or features, as Keras's `predict`.

        For text the rows are in the order of the texts. For names of labels, answers and entities
        use the methods of the task, such as `predict_labels`.

        Args:
            x: columns of text, features or a dataset; see `fit`.
            batch_size: number of texts that run together; None for 32.
            verbose: as in Keras; text shows no progress.
            steps: as in Keras; not for text.
            callbacks: as in Keras; not for text.

        Returns:
            For features a dictionary of arrays, as in Keras. For text, where an example has one
            output of fixed size, one float32 array: logits [texts, classes], similarities or
            vectors. Else a list with one entry for each text; see `logits_of` of the task.

        Raises:
            DataError: one str instead of a list, or a row is no text; the message names the row.
            ValueError: text for a task without a tokenizer, or `steps` or `callbacks` with text.
        """
        text = find_text(x, self.text_inputs)
        if text is None:
            return super().predict(x, batch_size, verbose, steps, callbacks)
        if steps is not None or callbacks:
            raise ValueError(
                "`steps` and `callbacks` of `predict` are for features, not for text. Leave them "
                "out, or pass features."
            )
        return self.logits_of(text.columns, batch_size)

    def two_columns(self, columns: Sequence[Any]) -> tuple[list[str], list[str]]:
        """Return the two columns of texts that the task needs.

        Raises:
            ValueError: another number of columns.
        """
        first, second = self.text_inputs
        if len(columns) != 2:
            raise ValueError(
                f"A {type(self).__name__} reads two columns, {first} and {second}: pass the tuple "
                f"({first}s, {second}s). Received: {len(columns)} columns"
            )
        return texts_of(first, columns[0]), texts_of(second, columns[1])

    def split_together(self, columns: Sequence[Any]) -> Sequence[str] | None:
        """Return a key for each row; a validation split keeps rows of one key together.

        The keys are the first texts of pairs; None for single texts, which are split freely.
        """
        return columns[0] if len(columns) > 1 else None

    def _encoded(
        self,
        columns: Sequence[Any],
        y: Any,
        sample_weight: Any,
        *,
        class_weight: Mapping[Any, float] | None = None,
        **options: Any,
    ) -> SupervisedExamples:
        """Return the examples of texts, with the weights of their classes and their own."""
        if class_weight is not None:
            options["class_weights"] = weights_by_name(class_weight, self._class_names())
        if sample_weight is not None and not self.takes_sample_weight:
            raise ValueError(
                f"A {type(self).__name__} takes no `sample_weight` with text, because one text may "
                "take several rows. Pass features with sample weights of your own."
            )
        examples = self.examples_of(
            columns,
            y,
            multiple_of=length_multiple(),
            segments=features.SEGMENT_IDS in {tensor.name for tensor in self.inputs},
            **options,
        )
        if sample_weight is not None:
            examples.weigh(sample_weight)
        return examples

    def _compile_for(self, *arguments: Any) -> None:
        """Compile a task that the caller did not compile, and check the loss of any."""
        compile_for(self, *arguments)
        self.check_loss()

    def _class_names(self) -> list[str]:
        """Return the names of the labels; refuse `class_weight` for tasks without one label."""
        problem = self.options.get("problem", "single_label")
        has_classes = features.LABEL in self.output and "labels" in self.options
        if not has_classes or problem != "single_label":
            raise ValueError(
                "`class_weight` is for tasks whose output is the one label of a text. Pass sample "
                f"weights. Received: a {type(self).__name__}"
                + (f" with problem={problem!r}" if has_classes else "")
            )
        return self.options["labels"]

    def _validation_text(self, data: Any) -> tuple[Any, tuple[Any, Any, Any] | None]:
        """Return (data, None) for features, or (None, (columns, y, sample_weight)) for text."""
        x, *rest = data if isinstance(data, tuple | list) and len(data) in (2, 3) else (data,)
        text = find_text(x, self.text_inputs)
        if text is None:
            return data, None
        y, weight, *_ = (*rest, None, None)
        return None, _with_targets(text, y, weight)

    def _length(self, max_length: int | None) -> int:
        """Return the largest number of tokens in a row.

        For None it is that of the last training, or the default of fine-tuning.
        """
        if max_length is None:
            default = self.predictor_config.max_length or FINETUNING.max_length
            max_length = min(default, self.encoder.config.max_positions)
        return checked_length(max_length, self.encoder)


def _refuse_targets_of_a_generator(x: Any, y: Any) -> None:
    """Raise `ValueError` for targets beside a generator, which Keras would ignore silently."""
    if isinstance(x, types.GeneratorType) and y is not None:
        raise ValueError(
            "`y` is not read where `x` is a generator, which must yield batches of features with "
            "their targets. Pass text as a list, such as `list(texts)`."
        )


def _with_targets(
    text: TextColumns, y: Any, sample_weight: Any
) -> tuple[tuple[Any, ...], Any, Any]:
    """Return (columns, y, sample_weight), targets and weights of the dataset or the arguments.

    Raises:
        ValueError: both the dataset and the arguments have targets or weights.
    """
    for name, in_dataset, argument in (
        ("y", text.y, y),
        ("sample_weight", text.sample_weight, sample_weight),
    ):
        if in_dataset is not None and argument is not None:
            raise ValueError(
                f"The dataset in `x` has a part that is read as `{name}`, and `{name}` is passed "
                "too. Leave one of them out."
            )
    return (
        text.columns,
        text.y if y is None else y,
        text.sample_weight if sample_weight is None else sample_weight,
    )


def _rows_of(
    columns: Sequence[Any], y: Any, sample_weight: Any, numbers: Sequence[int]
) -> tuple[tuple[Any, ...], Any, Any]:
    """Return the rows of the given numbers, of columns, targets and weights."""
    selected = tuple(_take(column, numbers) for column in columns)
    return selected, _take(y, numbers), _take(sample_weight, numbers)


def _take(values: Any, numbers: Sequence[int]) -> Any:
    """Return the rows of the given numbers, of a column, an array or a dictionary of these."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: _take(column, numbers) for name, column in values.items()}
    if isinstance(values, np.ndarray):
        return values[list(numbers)]
    rows = values_of("x or y", values)
    return [rows[number] for number in numbers]
