"""From texts to answers with a trained model, on any backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.checks import check_top_k
from bert_keras.models import (
    BertEncoder,
    MultipleChoice,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    TokenClassifier,
)
from bert_keras.models.prompts import prompt_of
from bert_keras.predictor import entities, labels, masks, spans, vectors, words
from bert_keras.predictor.answers import Answer, Choice, Entity, Fill, Label
from bert_keras.predictor.base import Base
from bert_keras.predictor.running import check_pairs, check_texts, softmax

# Methods of earlier versions -> their names today.
_RENAMED = {
    "sentence_vectors": "encode",
    **{
        name: f"predict_{name}"
        for name in ("labels", "tags", "entities", "answers", "choices", "scores", "pair_scores")
    },
}


class Predictor(Base):
    """Answers for texts, in the order they are given.

    Texts of similar length run together; for JAX, which compiles for every shape, they are padded
    to a few sizes. A text longer than `max_length` is cut; the words of
    `predict_entities` and the context of `predict_answers` are read in as many parts as it takes.

    Args:
        task: any task but `ElectraPretrainer`, or a `BertEncoder`.
        tokenizer: the one the model was trained with.
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

    def __call__(self, texts: Sequence[Any], *more: Any, **options: Any) -> Any:
        """Answer by the method that suits the model's class.

        `predict_labels` of a `SequenceClassifier` (`predict_scores` of a regression) and of a
        `SentencePairs` that has labels, `predict_entities` of a `TokenClassifier`,
        `predict_answers` of a `QuestionAnswerer`, `predict_choices` of a `MultipleChoice`,
        `encode` of any other that makes vectors (`similarity` where it is given pairs), else
        `fill_mask`.
        """
        return self._method(bool(more))(texts, *more, **{**self.options, **options})

    def _method(self, is_paired: bool = False) -> Callable[..., Any]:
        task = self.task
        is_number = self._problem == "regression"
        labelled = self.predict_labels
        vectors_or_cosines = self.similarity if is_paired else self.encode
        return {
            SequenceClassifier: self.predict_scores if is_number else self.predict_labels,
            TokenClassifier: self.predict_entities,
            QuestionAnswerer: self.predict_answers,
            MultipleChoice: self.predict_choices,
            SentencePairs: labelled if features.LABEL in task.output else vectors_or_cosines,
            SentenceEncoder: vectors_or_cosines,
            BertEncoder: self.encode,
        }.get(type(task), self.fill_mask)

    @property
    def label_names(self) -> list[str]:
        """The names of the task's labels, in the order of its outputs."""
        options: dict[str, Any] = self.task.options
        return list(options["labels"])

    def predict_scores(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None
    ) -> np.ndarray:
        """Return what a `SequenceClassifier` gives each text, or pair: float32 [texts, classes].

        Probabilities of one label of several (each row sums to 1) or of each label on its own;
        of a regression the numbers, through the model's `activation` if it has one. A
        `SentencePairs` with labels gives them to pairs.

        Raises:
            ValueError: pairs that the model needs are missing, or are not as many as the texts.
        """
        self._require(features.LABEL, "predict_scores")
        if isinstance(self.task, SentencePairs):
            rows = self._runner.encode_apart(texts, pairs or ())
            logits = self._runner.per_example(features.LABEL, rows, group=2)
        else:
            logits = self._logits(texts, pairs)
        if self._problem == "regression" and "activation" in self.task.options:
            return labels.activated(logits, self.task.options["activation"])
        return labels.probabilities(logits, self._problem)

    def _logits(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> np.ndarray:
        check_texts(texts=texts)
        before = prompt_of(self.task.options, prompt, prompt_name)
        rows = self._runner.encode(vectors.prompted(texts, before), pairs)
        return self._runner.per_example(features.LABEL, rows)

    def predict_labels(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        top_k: int | None = None,
        threshold: float = 0.5,
    ) -> list[Any]:
        """The best label of each text, or pair, as a `Label`; lists of them where several count.

        Args:
            texts: the texts.
            pairs: second texts.
            top_k: that many labels of each text, best first.
            threshold: of a multi-label model without `top_k`: labels at least so probable.

        Raises:
            ValueError: the model gives numbers, or `top_k` is 0.
        """
        found, names = self.predict_scores(texts, pairs), self.label_names
        return labels.labels(found, names, self._problem, top_k=top_k, threshold=threshold)

    def predict_tags(self, sentences: Sequence[Sequence[str]]) -> list[list[Label]]:
        """The tag of every word, as a `TokenClassifier` gives it to the word's first piece.

        Args:
            sentences: words; long sentences are read in parts. A word without pieces, as of
                control characters, is "O" with the score 0.
        """
        self._require(features.TAGS, "predict_tags")
        return entities.tags(self._runner, self.label_names, sentences)

    def predict_entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        """The entities of each text, with where they stand in it: text[start:end]."""
        check_texts(texts=texts)
        known = entities.entity_tags(self.label_names)
        places = [words.words_of(text) for text in texts]
        read = [[text[a:b] for a, b in found] for text, found in zip(texts, places, strict=True)]
        return [
            entities.entities_of(text, found, tags, known)
            for text, found, tags in zip(texts, places, self.predict_tags(read), strict=True)
        ]

    def predict_answers(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        null_threshold: float | None = None,
        stride: int = 128,
        max_question: int = 64,
        max_pieces: int = 30,
        n_best: int = 20,
    ) -> list[Answer]:
        """The answer to each question in its context: context[start:end].

        Args:
            questions: the questions.
            contexts: the texts, of any length.
            null_threshold: no answer ("") is given where its logit is higher by more than this
                than that of the best span; None always gives a span.
            stride: pieces from one part of a context to the next.
            max_question: pieces of a question; the rest is cut.
            max_pieces: of an answer.
            n_best: answers that share a probability.

        Raises:
            ValueError: a question leaves no room for the text, or a value is out of range.
        """
        self._require(features.START, "predict_answers")
        return spans.answers(
            self._runner,
            questions,
            contexts,
            null_threshold=null_threshold,
            stride=stride,
            max_question=max_question,
            max_pieces=max_pieces,
            n_best=n_best,
        )

    def predict_choices(
        self, prompts: Sequence[str], options: Sequence[Sequence[str]]
    ) -> list[Choice]:
        """The best option for each prompt."""
        self._require(features.CHOICE, "predict_choices")
        return labels.choices(self._runner, prompts, options)

    def fill_mask(self, texts: Sequence[str], *, top_k: int = 5) -> list[list[list[Fill]]]:
        """The most probable tokens for every [MASK].

        Args:
            texts: each with one [MASK] or more; every place is filled on its own.
            top_k: how many fills for each.

        Returns:
            For each text, for each of its masks, the fills, best first.

        Raises:
            ValueError: a text has no [MASK], or has one where the text is cut.
        """
        self._require(features.MLM, "fill_mask")
        check_top_k(top_k, self.tokenizer)
        return masks.fill_mask(self._runner, texts, top_k)

    def next_sentence(self, firsts: Sequence[str], seconds: Sequence[str]) -> np.ndarray:
        """The probability that the second text follows the first: float32 [pairs].

        Raises:
            ValueError: the model was not trained for it.
        """
        self._require(features.NSP, "next_sentence")
        rows = self._runner.encode(firsts, seconds)
        nowhere = [np.zeros(1, np.int32)] * len(rows)
        return softmax(self._runner.per_example(features.NSP, rows, positions=nowhere))[:, 0]

    def encode(
        self, texts: Sequence[str], *, prompt: str | None = None, prompt_name: str | None = None
    ) -> np.ndarray:
        """Return the vector of each text: float32 [texts, size].

        Those of a `SentenceEncoder`, or of what a `SentencePairs` trains; of any other model the
        mean of what its encoder makes of the tokens, [CLS] and [SEP] included.

        Args:
            texts: the texts.
            prompt: what is read before each text, as it stands there, such as "query: "; "" for
                nothing.
            prompt_name: the same by its name among the model's `prompts`. Without either it is the
                one that the model has as its default.

        Raises:
            ValueError: both are given, or the model has no prompt of that name.
        """
        check_texts(texts=texts)
        before = prompt_of(self.task.options, prompt, prompt_name)
        if isinstance(self.task, SentenceEncoder):
            return vectors.own(self._runner, texts, before)
        if isinstance(self.task, SentencePairs):
            return vectors.own(self._runner_of(self.task.sentence_encoder), texts, before)
        return vectors.means(self._runner_of(self.encoder), texts, before)

    def similarity(
        self,
        firsts: Sequence[str],
        seconds: Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> np.ndarray:
        """Return how alike the vectors of each first and second text are: float32 [pairs].

        The cosine, or what the model names as its `similarity`; of distances the negative. Texts
        that have different prompts are compared by `encode` and a product of the vectors.

        Args:
            firsts: the first texts.
            seconds: as many second ones.
            prompt: of all texts, as for `encode`.
            prompt_name: likewise.
        """
        check_pairs(firsts, seconds)
        name = self.task.options.get("similarity", features.COSINE)
        left, right = (
            self.encode(texts, prompt=prompt, prompt_name=prompt_name)
            for texts in (firsts, seconds)
        )
        return vectors.SIMILARITIES[name](left, right)

    def predict_pair_scores(
        self,
        firsts: Sequence[str],
        seconds: Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> np.ndarray:
        """Return the score of each pair, as a CrossEncoder of sentence-transformers predicts it.

        The logits of a `SequenceClassifier` through its `activation`; where it has none, through a
        sigmoid for one class, and as they are for more. `predict_scores` has probabilities of
        labels.

        Args:
            firsts: the first texts, such as questions.
            seconds: as many second ones, such as passages.
            prompt: before each first text, as for `encode`.
            prompt_name: likewise.

        Returns:
            float32 [pairs], or [pairs, classes] of several classes.

        Raises:
            ValueError: another kind of model, or not as many second texts.
        """
        if not isinstance(self.task, SequenceClassifier):
            raise ValueError(
                "`predict_pair_scores` needs a SequenceClassifier. "
                f"Received: a {type(self.task).__name__}"
            )
        logits = self._logits(firsts, seconds, prompt, prompt_name)
        usual = "sigmoid" if logits.shape[1] == 1 else "linear"
        scores = labels.activated(logits, self.task.options.get("activation", usual))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def __getattr__(self, name: str) -> Any:
        if name in _RENAMED:
            raise AttributeError(f"`Predictor.{name}` is called `{_RENAMED[name]}` now.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def prompt(self) -> str:
        """The text that is read before each text by default; "" for none."""
        told = [self.options.get(name) for name in ("prompt", "prompt_name")]
        return prompt_of(self.task.options, *told)

    def prompt_length(self, prompt: str) -> int:
        """Return how many tokens a prompt takes at the beginning of a row, with [CLS]; 0 of ""."""
        return vectors.prompt_length(self._runner, prompt)

    @property
    def _problem(self) -> str | None:
        options: dict[str, Any] = self.task.options
        return "single_label" if isinstance(self.task, SentencePairs) else options.get("problem")

    def _require(self, output: str, method: str) -> None:
        found = list(self.task.output)
        if output not in found:
            raise ValueError(
                f"`{method}` needs a model with an output {output!r}. Received: a "
                f"{type(self.task).__name__} with {', '.join(map(repr, found))}"
            )
