"""`fit`, `evaluate` and `predict` of tasks that take text as well as features."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_keras import features
from bert_keras.data import EncodedTexts, SupervisedExamples, dataset, length_multiple
from bert_keras.data.columns import texts_of
from bert_keras.data.supervised import validation_split as split_rows
from bert_keras.inference.base import PredictorConfig
from bert_keras.models.base import WithoutUnused
from bert_keras.models.compiling import ChecksLosses, compile_for, steps_of, with_class_weights
from bert_keras.models.text_columns import TextColumns, find_text, report_coverage
from bert_keras.models.text_targets import named_targets, refuse_generator, weights_by_name
from bert_keras.models.text_windows import (
    evaluate_texts,
    is_split,
    reading_of,
    refuse_with_features,
    warn_of_cut,
)
from bert_keras.models.with_tokenizer import WithTokenizer, checked_length
from bert_keras.task_names import FINETUNING

_HOW_TO_MAKE_FEATURES = (
    "Pass a dictionary of arrays by input name, or batches of them: bert_keras.data.encode and "
    "bert_keras.data.PretrainingExamples make them from text."
)


class FitsText(WithTokenizer, ChecksLosses, WithoutUnused):
    """Mixin of tasks: `fit`, `evaluate` and `predict` take text, and `fit` compiles by default."""

    takes_sample_weight: ClassVar[bool] = True  # of texts; features always have sample weights

    _validation_examples: SupervisedExamples | None = None  # of text, while `fit` runs

    def outputs_of(self, rows: EncodedTexts) -> dict[str, np.ndarray]:
        """Return the outputs of texts in windows, by name: the means over the windows."""
        runner = self._runner()
        return {name: runner.per_example(name, rows) for name in self.output}

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode texts and targets to examples.

        Args:
            columns: columns of text, in the order of `text_inputs`.
            y: targets, one for each text; None where the task has none.
            options: `max_length`, the largest number of tokens in a row; `class_weights` by name,
                where the labels of the task are classes; `long_texts` and `stride` for a task that
                `takes_windows`; and those of `SupervisedExamples`.

        Raises:
            DataError: a row is no text or has no target; the message names the row.
        """
        del columns, y, options
        raise ValueError(
            f"A {type(self).__name__} takes features, not text. {_HOW_TO_MAKE_FEATURES}"
        )

    def logits_of(
        self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any
    ) -> Any:
        """Return the outputs for texts, in the order of the texts; see `predict`.

        Args:
            columns: columns of text, in the order of `text_inputs`.
            batch_size: number of texts in a batch; None for 32.
            reading: `long_texts` and `stride`, if they are not None.
        """
        del columns, batch_size, reading
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
        long_texts: str | None = None,
        stride: int | None = None,
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
            y: targets: names or indices of labels, numbers, tags of words, entities of texts as
                `data.tag_words` takes them, answers. Class numbers in a column of `datasets` are
                read by their names.
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
                training, or 128.
            long_texts: how a text of more tokens than `max_length` is read. "truncate" reads its
                beginning. "windows" makes several rows of it, windows that overlap; each has the
                label of the text, and together they weigh as much as one short text. Metrics and
                answers are those of texts. None: as in the last training, else "truncate" with a
                warning.
            stride: doc stride: number of tokens from the start of one window to the start of the
                next; None for three quarters of a window.
            seed: seed of the order of the texts and of `validation_split`.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            DataError: a row is no text, or a target is bad; the message names the row.
            ValueError: text for a task without a tokenizer.
        """
        refuse_generator(x, y)
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
            refuse_with_features(max_length=max_length, long_texts=long_texts, stride=stride)
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
        text = text.with_targets(self._named(y), sample_weight)
        length, reading = self._length(max_length), reading_of(self, long_texts, stride)
        encode = functools.partial(self._encoded, max_length=length, **reading.options)
        size = batch_size or FINETUNING.batch_size
        validation_text = validation_examples = None
        if validation_data is not None:
            validation_data, validation_text = self._validation_text(validation_data)
        elif validation_split:
            count, keys = len(text.columns[0]), self.split_together(text.columns)
            training, validation = split_rows(count, validation_split, seed=seed, firsts=keys)
            validation_text, text = text.rows(validation), text.rows(training)
        if validation_text is not None:
            validation_examples = encode(
                *validation_text, batch_size=validation_batch_size or size, seed=None
            )
            validation_data = dataset(validation_examples)
            arguments["validation_batch_size"] = None
        arguments["validation_data"] = validation_data
        order_seed = seed if shuffle else None
        examples = encode(*text, batch_size=size, seed=order_seed, class_weight=class_weight)
        report_coverage(self.required_tokenizer(), text.columns, examples.rows.token_ids, verbose)
        warn_of_cut(self, reading, (text, examples), (validation_text, validation_examples))
        steps = steps_per_epoch or examples.num_batches(0)
        self._compile_for(steps, epochs - initial_epoch, callbacks, verbose, learning_rate)
        options = reading.remembered(self.predictor_config.options)
        self.predictor_config = PredictorConfig(length, options, len(text.columns) > 1)
        batches = dataset(examples, repeat=steps_per_epoch is not None, epoch=initial_epoch)
        if steps_per_epoch is not None:
            arguments["steps_per_epoch"] = steps_per_epoch
        self._validation_examples = validation_examples
        try:
            return super().fit(batches, **arguments)
        finally:
            self._validation_examples = None

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
        *,
        long_texts: str | None = None,
        stride: int | None = None,
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
        refuse_generator(x, y)
        text = find_text(x, self.text_inputs)
        if text is None:
            refuse_with_features(long_texts=long_texts, stride=stride)
            examples = self._validation_examples
            if kwargs.get("_use_cached_eval_dataset") and is_split(examples):
                return evaluate_texts(self, examples, verbose, callbacks, return_dict)
            return super().evaluate(x, y, batch_size, sample_weight=sample_weight, **options)
        if not self.compiled:
            compile_for(self, None, 1, None, 0)
        text = text.with_targets(self._named(y), sample_weight)
        reading = reading_of(self, long_texts, stride)
        size = batch_size or FINETUNING.batch_size
        sizes: dict[str, Any] = {"max_length": self._length(None), "batch_size": size}
        examples = self._encoded(*text, **sizes, seed=None, **reading.options)
        warn_of_cut(self, reading, (text, examples))
        if is_split(examples):
            return evaluate_texts(self, examples, verbose, callbacks, return_dict)
        return super().evaluate(dataset(examples), **options)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
        *,
        long_texts: str | None = None,
        stride: int | None = None,
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
            long_texts: "truncate" or "windows", whose outputs are averaged; see `fit`.
            stride: doc stride of the windows; see `fit`.

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
            refuse_with_features(long_texts=long_texts, stride=stride)
            return super().predict(x, batch_size, verbose, steps, callbacks)
        if steps is not None or callbacks:
            raise ValueError(
                "`steps` and `callbacks` of `predict` are for features, not for text. Leave them "
                "out, or pass features."
            )
        reading = reading_of(self, long_texts, stride)
        return self.logits_of(text.columns, batch_size, **reading.of_runner)

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

    def _validation_text(self, data: Any) -> tuple[Any, TextColumns | None]:
        """Return (data, None) for features, or (None, text with targets and weights) for text."""
        x, *rest = data if isinstance(data, tuple | list) and len(data) in (2, 3) else (data,)
        text = find_text(x, self.text_inputs)
        if text is None:
            return data, None
        y, weight, *_ = (*rest, None, None)
        return None, text.with_targets(self._named(y), weight)

    def _named(self, y: Any) -> Any:
        """Return targets with names in place of the class numbers of a column of `datasets`."""
        return named_targets(y, self.options.get("labels"))

    def _length(self, max_length: int | None) -> int:
        """Return the largest number of tokens in a row.

        For None it is that of the last training, or the default of fine-tuning.
        """
        if max_length is None:
            default = self.predictor_config.max_length or FINETUNING.max_length
            max_length = min(default, self.encoder.config.max_positions)
        return checked_length(max_length, self.encoder)
