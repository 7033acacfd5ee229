"""`Predictor`: from texts to answers with a trained model, on any backend."""

from __future__ import annotations

import abc
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from bert_keras.checkpoints.sentence_transformers import (
    read_predictor_config,
    write_predictor_config,
)
from bert_keras.earlier_names import EarlierNames
from bert_keras.errors import ArtifactError
from bert_keras.inference import (
    AnswerMethods,
    ChoiceMethods,
    LabelMethods,
    MaskMethods,
    PairMethods,
    Runner,
    TagMethods,
    VectorMethods,
    prompt_length,
    prompt_of,
)
from bert_keras.inference.base import PredictorConfig
from bert_keras.inference.batching import check_batch_size
from bert_keras.models import BertEncoder, Task, checked_length, encoder_for
from bert_keras.tokenizers import Tokenizer

_TEXTS = ("prompt", "prompt_name")  # options that are no numbers


class PredictorState(abc.ABC):
    """State, opening and saving of a `Predictor`; the methods that answer come from `inference`."""

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
    ) -> Self:
        """Opens a model and its tokenizer, and how they are asked where their folder says it.

        Fine-tuned models say how long their texts were, and of questions how they are answered;
        folders of sentence-transformers the former.

        Args:
            handle: see `BertEncoder.from_preset`.
            batch_size: see the class.
            max_length: instead of what the folder says.
            allow_pickle: see `BertEncoder.from_preset`.
            trust: see there.

        Raises:
            ArtifactError: the folder cannot be read, is damaged, or says what does not fit.
            ValueError: an argument is out of range.
        """
        from bert_keras.loading import load_checkpoint

        task = load_checkpoint(handle, allow_pickle=allow_pickle, trust=trust)
        # A task has them attached. It has no tokenizer where the folder has none: that is told.
        tokenizer = task.tokenizer if isinstance(task, Task) else None
        if tokenizer is None:
            tokenizer = Tokenizer.from_preset(handle)
        is_task = isinstance(task, Task)
        asked = task.predictor_config if is_task else read_predictor_config(handle)
        told: dict[str, Any] = {"options": asked.options, "pairs": asked.pairs}
        try:
            opened = cls(task, tokenizer, **told)
            length = min(asked.max_length or opened.max_length, opened.max_length)
            checked_length(length, opened.encoder)
        except ValueError as error:
            raise ArtifactError(f"{handle}: {error}") from error
        sizes = {"max_length": length if max_length is None else max_length}
        return cls(task, tokenizer, batch_size=batch_size, **sizes, **told)

    def save_to_preset(self, directory: str | Path) -> None:
        """Writes the folder that `from_preset` opens: model, tokenizer, and how they are asked.

        Raises:
            NumericError: a weight is not finite. Nothing is written.
        """
        self.task.save_to_preset(directory)
        if getattr(self.task, "tokenizer", None) is not self.tokenizer:  # else it is written
            self.tokenizer.save_to_preset(directory)
        asked = PredictorConfig(self.max_length, self.options, self.pairs)
        write_predictor_config(Path(directory), asked)

    def _check_options(self) -> None:
        """Refuse options that the method does not take, or that are no numbers."""
        method = self._method()
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
            if name in _TEXTS and isinstance(value, str):
                continue
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and math.isfinite(value)):
                raise ValueError(
                    f"`options` must be finite numbers or None. Received: {name}={value!r:.100}"
                )
        prompt_of(self.task.options, *(self.options.get(name) for name in _TEXTS))

    @abc.abstractmethod
    def _method(self, is_paired: bool = False) -> Callable[..., Any]:
        """Return the method that a call of the predictor calls."""

    def _answering(self) -> Task | BertEncoder:
        return self.task

    def _runner_of(self, model: Task | BertEncoder, batch_size: int | None = None) -> Runner:
        size = self.batch_size if batch_size is None else batch_size
        sizes = {"batch_size": size, "max_length": self.max_length}
        return Runner(model, self.tokenizer, **sizes, progress=self._report)

    def _report(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)


# === Predictor ===


class Predictor(
    EarlierNames,
    PredictorState,
    LabelMethods,
    TagMethods,
    AnswerMethods,
    ChoiceMethods,
    MaskMethods,
    PairMethods,
    VectorMethods,
):
    """Answers for texts, in the order they are given.

    Texts of similar length run together; for JAX, which compiles for every shape, they are padded
    to a few sizes. A text longer than `max_length` is cut; the words of
    `predict_entities` and the context of `predict_answers` are read in as many parts as it takes.

    Args:
        task: any task but `ElectraPretrainer`, or a `BertEncoder`.
        tokenizer: the one the model was trained with; None for that of the task.
        batch_size: how many texts run together.
        max_length: most tokens of a text or pair, [CLS] and [SEP] counted; None for as many as the
            model has positions. A model has learned no more than the length it was trained with.
        options: what a call gives its method where it does not say otherwise, as `null_threshold`.
        pairs: of a model that takes one text or two: whether it learned from two, which exported
            models then take. It is asked as its caller likes.

    Attributes:
        progress: None, or a function that is told after every batch how many rows are done, and of
            how many.

    Raises:
        ValueError: the tokenizer has ids that the model has not, a value is out of range, or an
            option is not of that method.
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
        """Answer by the method that suits the model's class.

        `predict_labels` of a `SequenceClassifier` (`predict_scores` of a regression) and of a
        `SentencePairs` that has labels, `predict_entities` of a `TokenClassifier`,
        `predict_answers` of a `QuestionAnswerer`, `predict_choices` of a `MultipleChoice`,
        `encode` of any other that makes vectors (`similarity` where it is given pairs), else
        `fill_mask`. One text instead of a list has one answer instead of a list.
        """
        return self._method(bool(more))(texts, *more, **{**self.options, **options})

    def _method(self, is_paired: bool = False) -> Callable[..., Any]:
        """Return the method that answers; that of a task of other code is the task's own."""
        name = self.task.answer_method(is_paired)
        if hasattr(type(self), name):
            return getattr(self, name)
        return getattr(type(self.task), name).__get__(self)

    @property
    def prompt(self) -> str:
        """The text that is read before each text by default; "" for none."""
        told = [self.options.get(name) for name in ("prompt", "prompt_name")]
        return prompt_of(self.task.options, *told)

    def prompt_length(self, prompt: str) -> int:
        """Return how many tokens a prompt takes at the beginning of a row, with [CLS]; 0 of ""."""
        return prompt_length(self._runner(), prompt)
