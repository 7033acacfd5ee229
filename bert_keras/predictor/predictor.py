"""From texts to answers with a trained model, on any backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from bert_keras.earlier_names import EarlierNames
from bert_keras.inference import (
    AnswerMethods,
    ChoiceMethods,
    LabelMethods,
    MaskMethods,
    PairMethods,
    TagMethods,
    VectorMethods,
    prompt_length,
    prompt_of,
)
from bert_keras.predictor.base import Base


class Predictor(
    EarlierNames,
    Base,
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
        return getattr(self, self.task.answer_method(is_paired))

    @property
    def prompt(self) -> str:
        """The text that is read before each text by default; "" for none."""
        told = [self.options.get(name) for name in ("prompt", "prompt_name")]
        return prompt_of(self.task.options, *told)

    def prompt_length(self, prompt: str) -> int:
        """Return how many tokens a prompt takes at the beginning of a row, with [CLS]; 0 of ""."""
        return prompt_length(self._runner(), prompt)
