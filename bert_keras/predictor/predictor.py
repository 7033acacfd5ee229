"""`Predictor`: a trained model with its tokenizer and the options of its predictions."""

from __future__ import annotations

import abc
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from bert_keras.checkpoints import folders
from bert_keras.checkpoints.sentence_transformers import read_predictor_config
from bert_keras.data.long_texts import WINDOWS, CutTexts, check_long_texts
from bert_keras.earlier_names import EarlierNames
from bert_keras.errors import ArtifactError
from bert_keras.inference import (
    AnswerMethods,
    ChoiceMethods,
    MaskMethods,
    PairMethods,
    RankingMethods,
    Runner,
    TagMethods,
    ZeroShotMethods,
    prompt_length,
    prompt_of,
)
from bert_keras.inference.base import PredictorConfig
from bert_keras.inference.batching import check_batch_size, check_reads_together
from bert_keras.inference.entity_aggregation import check_aggregation
from bert_keras.models import BertEncoder, Task, checked_length, encoder_for
from bert_keras.predictor.device import checked_device, checked_dtype, device_scope
from bert_keras.tokenizers import Tokenizer

_TEXTS = ("prompt", "prompt_name")
# Options that are strings, each with a check of its own. All others are numbers.
_STRINGS = (*_TEXTS, "long_texts", "aggregation")


class PredictorState(abc.ABC):
    """State, opening and saving of a `Predictor`. The prediction methods come from `inference`."""

    def __init__(
        self,
        task: Task | BertEncoder,
        tokenizer: Tokenizer | None = None,
        *,
        batch_size: int = 32,
        max_length: int | None = None,
        options: Mapping[str, Any] | None = None,
        pairs: bool = False,
    ):
        tokenizer = tokenizer or getattr(task, "tokenizer", None)
        if tokenizer is None:
            raise ValueError(
                f"This {type(task).__name__} has no tokenizer: pass one, such as "
                "`Predictor(model, bert_keras.Tokenizer.from_preset(...))`."
            )
        self.encoder = encoder_for(task, tokenizer)
        self.max_length = checked_length(max_length, self.encoder)
        check_batch_size(batch_size)
        self.task, self.tokenizer, self.batch_size = task, tokenizer, batch_size
        self.pairs = pairs
        self.progress: Callable[[int, int], None] | None = None
        self.device: str | None = None
        self.on_cut: Callable[[CutTexts], None] | None = None
        self.options = dict(options or {})
        self._check_options()

    @classmethod
    def from_preset(
        cls,
        handle: str | Path,
        *,
        batch_size: int = 32,
        max_length: int | None = None,
        allow_pickle: bool = False,
        trust: bool = False,
        variant: str | None = None,
        averages: bool = False,
        dtype: Any = None,
        device: str | None = None,
    ) -> Self:
        """Open a model with its tokenizer and the predictor settings of its folder.

        Folders of fine-tuned models state the maximum length of texts and options such as
        `null_threshold`. Folders of sentence-transformers state the maximum length.

        Args:
            handle: preset, folder or `hf://` handle; see `BertEncoder.from_preset`.
            batch_size: number of texts in a batch.
            max_length: maximum number of tokens, instead of the folder's.
            allow_pickle: see `BertEncoder.from_preset`.
            trust: see `BertEncoder.from_preset`.
            variant: see `load_checkpoint`.
            averages: see `load_checkpoint`.
            dtype: Keras dtype policy of the model, such as "bfloat16" or "mixed_float16"; None for
                the global one. Answers are float32 with any policy.
            device: where the weights lie and every call computes, from any thread: "cpu", "gpu:0",
                "cuda:1" and so on; None for the backend's default.

        Raises:
            ArtifactError: if the folder cannot be read, is damaged, or its settings do not fit.
            ValueError: if an argument is out of range, or the backend has no such device here.
        """
        from bert_keras.loading import load_checkpoint

        device, dtype = checked_device(device), checked_dtype(dtype)
        with device_scope(device):
            task = load_checkpoint(
                handle,
                allow_pickle=allow_pickle,
                trust=trust,
                variant=variant,
                averages=averages,
                dtype=dtype,
            )
        # A task has the tokenizer of its folder. If it has none, `Tokenizer` raises the reason.
        tokenizer = task.tokenizer if isinstance(task, Task) else None
        if tokenizer is None:
            tokenizer = Tokenizer.from_preset(handle)
        is_task = isinstance(task, Task)
        config = task.predictor_config if is_task else read_predictor_config(handle)
        settings: dict[str, Any] = {"options": config.options, "pairs": config.pairs}
        try:
            opened = cls(task, tokenizer, **settings)
            length = min(config.max_length or opened.max_length, opened.max_length)
            checked_length(length, opened.encoder)
        except ValueError as error:
            raise ArtifactError(f"{handle}: {error}") from error
        sizes = {"max_length": length if max_length is None else max_length}
        predictor = cls(task, tokenizer, batch_size=batch_size, **sizes, **settings)
        predictor.device = device
        return predictor

    def save_to_preset(
        self, directory: str | Path, *, card: Mapping[str, Any] | None = None, private: bool = True
    ) -> None:
        """Write a folder that `from_preset` opens: model, tokenizer and predictor settings.

        Args:
            directory: folder, which is created if needed, or "hf://organisation/name[@branch]".
            card: facts for the model card; see `BertEncoder.save_to_preset`.
            private: whether a repository that is created is private.

        Raises:
            NumericError: if a weight is not finite. Nothing is written.
        """
        config = PredictorConfig(self.max_length, self.options, self.pairs)
        options: dict[str, Any] = {"card": card, "private": private}
        attached: dict[str, Any] = {"tokenizer": self.tokenizer, "config": config}
        folders.write_checkpoint(self.task, directory, **options, **attached)

    def _check_options(self) -> None:
        """Check that the prediction method takes the options and that they are finite numbers.

        Raises:
            ValueError: if it does not, or they are not.
        """
        method = self.prediction_method()
        known = [
            parameter.name
            for parameter in inspect.signature(method).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        for name, value in self.options.items():
            if name not in known:
                raise ValueError(
                    f"`options` must be of `{method.__name__}`: {', '.join(known) or 'none'}. "
                    f"Received: {name}"
                )
            if name in _STRINGS and isinstance(value, str):
                continue
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and math.isfinite(value)):
                raise ValueError(
                    f"`options` must be finite numbers or None. Received: {name}={value!r:.100}"
                )
        prompt_of(self.task.options, *(self.options.get(name) for name in _TEXTS))
        check_aggregation(self.options.get("aggregation"), self.task)
        if "long_texts" in known:
            check_long_texts(self.options.get("long_texts"), self.options.get("stride"))
            if self.options.get("long_texts") == WINDOWS and method.__name__ == "predict_labels":
                check_reads_together(self.task)

    @abc.abstractmethod
    def prediction_method(self, is_paired: bool = False) -> Callable[..., Any]:
        """Return the prediction method of the task; `is_paired`: for pairs of texts."""

    def _prediction_model(self) -> Task | BertEncoder:
        """Return the task or encoder that computes the answers."""
        return self.task

    def _prediction_options(self) -> Mapping[str, Any]:
        """Return the default options of the prediction method."""
        return self.options

    def _runner_of(
        self, model: Task | BertEncoder, batch_size: int | None = None, **reading: Any
    ) -> Runner:
        """Return a runner of a model with this predictor's tokenizer and length."""
        options: dict[str, Any] = {
            "batch_size": self.batch_size if batch_size is None else batch_size,
            "max_length": self.max_length,
            "progress": self._report,
            "device": self.device,
            "on_cut": self.on_cut,
        }
        return Runner(model, self.tokenizer, **options, **reading)

    def _report(self, done: int, total: int) -> None:
        """Call `progress`, which may be set at any time, if it is set."""
        if self.progress is not None:
            self.progress(done, total)


# === Predictor ===


class Predictor(
    EarlierNames,
    PredictorState,
    ZeroShotMethods,
    TagMethods,
    AnswerMethods,
    ChoiceMethods,
    MaskMethods,
    PairMethods,
    RankingMethods,
):
    """A trained model with its tokenizer, which predicts answers for texts in their order.

    Texts of similar length run in one batch. On JAX, which compiles for every shape, batches are
    padded to few sizes. A text longer than `max_length` is truncated with a warning, or read in
    windows with `long_texts="windows"`. Long texts of `predict_entities` and contexts of
    `predict_answers` are always read in several parts.

    Args:
        task: any task except `ElectraPretrainer`, or a `BertEncoder`.
        tokenizer: tokenizer that the model was trained with; None for that of the task.
        batch_size: number of texts in a batch.
        max_length: maximum number of tokens of a text or pair with [CLS] and [SEP]; None for the
            number of the model's positions. Longer texts than in training may be answered badly.
        options: default options of the prediction method, such as `null_threshold`.
        pairs: True if a model that can read one text or two was trained with pairs. Exported models
            then take pairs. Calls of the predictor may pass one text or two in any case.

    Attributes:
        progress: None, or a function that is called after every batch with (rows done, rows in
            all).
        device: name of the device that computes, such as "gpu:0"; None for the backend's default.
            `from_preset` puts the weights there too.
        on_cut: None for a warning if texts are truncated, or a function that is called instead,
            with a `data.long_texts.CutTexts`. Its `str` is the message.

    Raises:
        ValueError: if there is no tokenizer, it has more ids than the model, a value is out of
            range, or the prediction method does not take an option.
    """

    earlier_names = MappingProxyType(
        {
            "sentence_vectors": "encode",
            "labels": "predict_labels",
            "tags": "predict_tags",
            "entities": "predict_entities",
            "answers": "predict_answers",
            "choices": "predict_choices",
            "scores": "predict_scores",
            "pair_scores": "predict_pair_scores",
        }
    )

    def __call__(self, texts: Sequence[Any], *more: Any, **options: Any) -> Any:
        """Call the prediction method of the model's class.

        - `SequenceClassifier`, and `SentencePairs` with labels: `predict_labels`, or
          `predict_scores` for a regression;
        - `TokenClassifier`: `predict_entities`;
        - `QuestionAnswerer`: `predict_answers`;
        - `MultipleChoice`: `predict_choices`;
        - `MaskedLM` and `Pretrainer`: `fill_mask`;
        - other models: `encode`, or `similarity` for pairs of texts.

        Args:
            texts: first column of the method, or one row.
            more: further columns of the method.
            options: options of the method, which replace those of the predictor.

        Returns:
            The result of the method: an answer for each row; a single one for one row.
        """
        return self.prediction_method(bool(more))(texts, *more, **{**self.options, **options})

    def prediction_method(self, is_paired: bool = False) -> Callable[..., Any]:
        """Return the prediction method of the task; `is_paired`: for pairs of texts.

        A task that is defined outside this package may bring a method that `Predictor` lacks.
        """
        name = self.task.answer_method(is_paired)
        if hasattr(type(self), name):
            return getattr(self, name)
        return getattr(type(self.task), name).__get__(self)

    @property
    def prompt(self) -> str:
        """Prompt that is put before each text by default; "" for none."""
        names = [self.options.get(name) for name in ("prompt", "prompt_name")]
        return prompt_of(self.task.options, *names)

    def prompt_length(self, prompt: str) -> int:
        """Return the number of tokens of a prompt with [CLS]; 0 for ""."""
        return prompt_length(self._runner(), prompt)
