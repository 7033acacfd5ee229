"""Estimators for scikit-learn: a classifier, a regressor and an encoder of texts.

They need the package scikit-learn. `X` is a list or array of texts. Pairs of texts are a list of
pairs, or an array or DataFrame of two columns.
"""

from __future__ import annotations

import contextlib
from typing import Any, Self

import keras
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from bert_keras.inference.text_classification import probabilities
from bert_keras.models import SequenceClassifier
from bert_keras.predictor import Predictor

__all__ = ["TextClassifier", "TextEncoder", "TextRegressor"]

_PRESET = "bert_base_uncased"


class _TextEstimator(BaseEstimator):
    """Base of estimators of texts."""

    model_: Any

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that the input is a column of strings, not numbers."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.no_validation = True
        tags.non_deterministic = True
        return tags


class _FineTuned(_TextEstimator):
    """Base of estimators that fine-tune a `SequenceClassifier`; see `TextClassifier`."""

    def __init__(
        self,
        preset: str = _PRESET,
        *,
        epochs: int = 3,
        batch_size: int = 32,
        learning_rate: float | None = None,
        max_length: int | None = None,
        long_texts: str | None = None,
        stride: int | None = None,
        random_state: int | None = 0,
        verbose: int = 0,
    ):
        self.preset = preset
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_length = max_length
        self.long_texts = long_texts
        self.stride = stride
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, X: Any, y: Any, head: dict[str, Any], **options: Any) -> None:
        """Open the preset with a new head and fine-tune it.

        Args:
            X: texts or pairs of texts.
            y: labels or numbers.
            head: options of the `SequenceClassifier`.
            options: further arguments of its `fit`.
        """
        if self.random_state is not None:
            keras.utils.set_random_seed(self.random_state)
        # The line about a new head is for those who do not know that it will be trained.
        hidden = contextlib.nullcontext() if self.verbose else contextlib.redirect_stdout(None)
        with hidden:
            self.model_ = SequenceClassifier.from_preset(self.preset, new_head=True, **head)
        self.model_.fit(
            _columns(X),
            y,
            batch_size=self.batch_size,
            epochs=self.epochs,
            verbose=self.verbose,
            learning_rate=self.learning_rate,
            max_length=self.max_length,
            long_texts=self.long_texts,
            stride=self.stride,
            seed=self.random_state or 0,
            **options,
        )

    def _logits(self, X: Any) -> np.ndarray:
        """Return the logits of texts, float32 [texts, classes]."""
        check_is_fitted(self)
        return self.model_.predict(_columns(X), long_texts=self.long_texts, stride=self.stride)


class TextClassifier(ClassifierMixin, _FineTuned):
    """Classifier of texts or pairs of texts that fine-tunes a `SequenceClassifier`.

    Args:
        preset: handle of a checkpoint; see `BertEncoder.from_preset`.
        epochs: number of passes over the texts.
        batch_size: number of texts in a batch.
        learning_rate: highest rate of the training; None for the default of `fit`.
        max_length: maximum number of tokens of a text; None for the default of `fit`.
        long_texts: "truncate" or "windows" for longer texts; see `SequenceClassifier.fit`.
        stride: doc stride of the windows; see `SequenceClassifier.fit`.
        class_weight: None, "balanced", or a dict from label to weight.
        random_state: seed of new weights, dropout and the order of the texts. It sets Keras's
            global seeds; None does not change them.
        verbose: verbosity of Keras's `fit`.

    Attributes:
        classes_: labels, sorted.
        model_: the fine-tuned `SequenceClassifier`.
    """

    def __init__(
        self,
        preset: str = _PRESET,
        *,
        epochs: int = 3,
        batch_size: int = 32,
        learning_rate: float | None = None,
        max_length: int | None = None,
        long_texts: str | None = None,
        stride: int | None = None,
        class_weight: Any = None,
        random_state: int | None = 0,
        verbose: int = 0,
    ):
        super().__init__(
            preset,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            max_length=max_length,
            long_texts=long_texts,
            stride=stride,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on texts and their labels.

        Raises:
            ValueError: if there are fewer than two labels, or not one for each text.
        """
        self.classes_, indices = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "A classifier needs two classes or more. Received: the class "
                f"{', '.join(map(str, self.classes_))} alone"
            )
        head = {"labels": [str(name) for name in self.classes_], "problem": "single_label"}
        weights = None
        if self.class_weight is not None:
            values = compute_class_weight(self.class_weight, classes=self.classes_, y=np.asarray(y))
            weights = dict(zip(head["labels"], values.tolist(), strict=True))
        names = [head["labels"][index] for index in indices]
        self._fit(X, names, head, class_weight=weights, sample_weight=sample_weight)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, float32 [texts, classes]."""
        return probabilities(self._logits(X), "single_label")

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of each text, [texts]."""
        best = self._logits(X).argmax(axis=1)
        return self.classes_[best]


class TextRegressor(RegressorMixin, _FineTuned):
    """Regressor of one number for each text or pair, which fine-tunes a `SequenceClassifier`.

    The model is trained on standardised targets: (target - `mean_`) / `scale_`.

    Args:
        preset: handle of a checkpoint; see `BertEncoder.from_preset`.
        epochs: number of passes over the texts.
        batch_size: number of texts in a batch.
        learning_rate: highest rate of the training; None for the default of `fit`.
        max_length: maximum number of tokens of a text; None for the default of `fit`.
        long_texts: "truncate" or "windows" for longer texts; see `SequenceClassifier.fit`.
        stride: doc stride of the windows; see `SequenceClassifier.fit`.
        random_state: seed of new weights, dropout and the order of the texts. It sets Keras's
            global seeds; None does not change them.
        verbose: verbosity of Keras's `fit`.

    Attributes:
        model_: the fine-tuned `SequenceClassifier`.
        mean_: mean of the targets.
        scale_: standard deviation of the targets; 1 if they are all equal.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on texts and their numbers.

        Raises:
            ValueError: if there is not one finite number for each text.
        """
        targets = np.asarray(y, np.float64)
        if targets.ndim != 1 or not np.isfinite(targets).all():
            raise ValueError(
                "`y` must be one finite number for each text. Received: "
                + (f"shape {targets.shape}" if targets.ndim != 1 else "NaN or infinity")
            )
        self.mean_ = float(targets.mean())
        self.scale_ = float(targets.std()) or 1.0
        head = {"num_classes": 1, "problem": "regression"}
        scaled = (targets - self.mean_) / self.scale_
        self._fit(X, scaled, head, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted number of each text, float64 [texts]."""
        return self._logits(X)[:, 0].astype(np.float64) * self.scale_ + self.mean_


class TextEncoder(TransformerMixin, _TextEstimator):
    """Transformer from texts to sentence embeddings, without training.

    The vectors are those of a `SentenceEncoder`, or the mean of any other model's token vectors.

    Args:
        preset: handle of a checkpoint; see `BertEncoder.from_preset`.
        batch_size: number of texts in a batch.
        max_length: maximum number of tokens of a text; None for that of the folder.
        long_texts: "truncate" or "windows" for longer texts; see `Predictor.encode`.
        stride: doc stride of the windows.

    Attributes:
        model_: the opened model.
    """

    def __init__(
        self,
        preset: str = _PRESET,
        *,
        batch_size: int = 32,
        max_length: int | None = None,
        long_texts: str | None = None,
        stride: int | None = None,
    ):
        self.preset = preset
        self.batch_size = batch_size
        self.max_length = max_length
        self.long_texts = long_texts
        self.stride = stride

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Open the model. Nothing is trained, and `X` is not read."""
        del X, y
        self.model_ = _Vectors(self.preset, self.batch_size, self.max_length)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the embeddings of texts, float32 [texts, size]."""
        check_is_fitted(self)
        reading: Any = {"long_texts": self.long_texts, "stride": self.stride}
        return self.model_.predictor.encode(_columns(X), **reading)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each component of a vector: "vector0" and so on."""
        del input_features
        check_is_fitted(self)
        size = self.transform(["a"]).shape[1]
        return np.array([f"vector{number}" for number in range(size)], object)


class _Vectors:
    """A predictor that is pickled as its preset, and opened again from it."""

    def __init__(self, preset: str, batch_size: int, max_length: int | None):
        self._arguments = (preset, batch_size, max_length)
        self.predictor = Predictor.from_preset(preset, batch_size=batch_size, max_length=max_length)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the options of the preset instead of the model."""
        return type(self), self._arguments


def _columns(X: Any) -> Any:
    """Return `X` as the model takes it: a column of texts, or a tuple of two columns."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):  # a DataFrame of pandas
        first, *others = (X[name] for name in X.columns)
        return (first, *others) if others else first
    if isinstance(X, np.ndarray):
        return tuple(X.T) if X.ndim == 2 and X.shape[1] > 1 else X.ravel()
    rows = list(X)
    if rows and all(isinstance(row, tuple | list) and len(row) == 2 for row in rows):
        return tuple(map(list, zip(*rows, strict=True)))
    return rows
