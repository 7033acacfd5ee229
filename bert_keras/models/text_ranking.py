"""Text ranking: the relevance of documents for a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import keras
import numpy as np

from bert_keras import features
from bert_keras.data import SupervisedExamples
from bert_keras.data.text_ranking import ranking_columns, ranking_examples
from bert_keras.inference import PairScoreMethods, prompt_of, prompt_options
from bert_keras.layers import MergeChoices, SplitChoices
from bert_keras.layers.pooling import ACTIVATIONS
from bert_keras.losses import RankingLoss, RankingMetric
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.models.text_classification import (
    CLS,
    HiddenLayer,
    takes_pooled_output,
    text_head,
    text_logits,
)
from bert_keras.models.text_columns import TEXT_PAIR
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class TextRanker(PairScoreMethods, Task):
    """Scores documents for a query, which it reads in one row (Nogueira & Cho, 2019, §3.1).

    This is a cross-encoder. Its folder is that of a CrossEncoder of sentence-transformers, and of
    a `SequenceClassifier` with one class, which has the same layers.

    Inputs: the encoder's, with an axis for the documents: int32 [batch, documents, length].
    Output: {"score": float32 [batch, documents]}, before the activation.

    Args:
        encoder: the encoder.
        loss: a loss of `bert_keras.losses`, by name or as an object. "binary" trains the relevance
            of each document, from 0 to 1. "list_net" and "lambda" train the order of a query's
            documents, "margin_mse" the differences of the scores of a teacher.
        hidden_activation: as for `SequenceClassifier`.
        dropout: dropout rate before each layer of the head; None for the encoder's.
        hidden_dropout: as for `SequenceClassifier`.
        hidden_norm: as for `SequenceClassifier`.
        hidden_bias: as for `SequenceClassifier`.
        pooling: as for `SequenceClassifier`.
        activation: activation that `predict_pair_scores` and `rank` apply to the scores, a name of
            `layers.pooling.ACTIVATIONS`. It does not change the order.
        prompts: texts to put before the queries, by name.
        default_prompt_name: name of the prompt to use where the user names none; None for none.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.

    Attributes:
        ranking_loss: the loss.

    Raises:
        ValueError: an unknown loss or activation, or the encoder has no pooler, and
            `hidden_activation` is None.
    """

    head_layers = (features.LABEL,)  # the layers have the names of those of `SequenceClassifier`
    task_name = "text_ranking"
    answers_with = "predict_pair_scores"
    text_inputs = ("query", "documents")
    takes_pairs = True

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        loss: str | RankingLoss | Mapping[str, Any] = "binary",
        hidden_activation: str | None = None,
        dropout: float | None = None,
        hidden_dropout: float | None = None,
        hidden_norm: bool = False,
        hidden_bias: bool = True,
        pooling: str = CLS,
        activation: str = "sigmoid",
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        name: str = "text_ranker",
        tokenizer: Tokenizer | None = None,
    ):
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"`activation` must be one of {', '.join(ACTIVATIONS)}. "
                f"Received: activation={activation!r}"
            )
        ranking_loss = RankingLoss.of(loss)
        # === Layers ===
        hidden = HiddenLayer(hidden_activation, hidden_dropout, hidden_norm, hidden_bias)
        head = text_head(encoder, 1, hidden, dropout, features.LABEL)
        # === Functional model ===
        inputs = {
            name: keras.Input((None, None), dtype="int32", name=name)
            for name in task_inputs(encoder)
        }
        texts = {name: MergeChoices(name=f"{name}_of_texts")(x) for name, x in inputs.items()}
        scores = text_logits(encoder, texts, head, hidden, pooling)
        split = SplitChoices(name="scores")
        outputs = {features.SCORE: split(scores, inputs[features.TOKEN_IDS])}
        options: dict[str, Any] = {
            "loss": keras.saving.serialize_keras_object(loss),  # a name stays as it is
            "hidden_activation": hidden_activation,
            "dropout": dropout,
            "hidden_dropout": hidden_dropout,
            **hidden.more_options(),
            "activation": activation,
        }
        if pooling != CLS:
            options["pooling"] = pooling
        options |= prompt_options(prompts, default_prompt_name)
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.head = head
        self.ranking_loss = ranking_loss

    @property
    def reads_pooler(self) -> bool:
        """True unless the head has a dense layer of its own over [CLS], or reads other vectors."""
        return takes_pooled_output(self.options)

    @classmethod
    def answer_inputs(cls, is_paired: bool = False) -> tuple[str, ...]:
        """Return the names of the two texts that a score is about."""
        del is_paired
        return TEXT_PAIR

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode queries and documents to examples.

        Args:
            columns: the queries, list of str, and the documents of each query, list of lists of
                str. Or one document for each row; rows with the same query make one list.
            y: relevance of each document, in the form of the documents.
            options: arguments of `ranking_examples`; see `FitsText.examples_of`.
        """
        loss = self.ranking_loss
        return ranking_examples(
            self.required_tokenizer(),
            *self.two_columns_of(columns),
            y,
            least_documents=loss.least_documents,
            highest=loss.highest,
            prompt=prompt_of(self.options),
            **options,
        )

    def two_columns_of(self, columns: Sequence[Any]) -> tuple[Any, Any]:
        """Return the column of queries and that of documents.

        Raises:
            ValueError: another number of columns.
        """
        if len(columns) != 2:
            raise ValueError(
                "A TextRanker reads two columns. Pass the tuple (queries, documents). "
                f"Received: {len(columns)} columns"
            )
        return columns[0], columns[1]

    def logits_of(self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any):
        """Return the scores before the activation, in the order of the queries.

        They are float32 [queries, documents], or [queries] for one document in each row. Where the
        lists have different lengths, they are a list with an array for each query.
        """
        queries, lists, has_lists = ranking_columns(*self.two_columns_of(columns))
        counts = [len(row) for row in lists]
        firsts = [query for query, count in zip(queries, counts, strict=True) for _ in range(count)]
        seconds = [text for row in lists for text in row]
        scores = self._logits(firsts, seconds, batch_size=batch_size, **reading)[:, 0]
        if not has_lists:
            return scores
        if len(set(counts)) == 1:
            return scores.reshape(len(counts), -1)
        return np.split(scores, np.cumsum(counts)[:-1])

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the loss of the option `loss`, and nDCG and MRR of the first ten documents.

        Labels are {"score": float [batch, documents]}, and sample weights are of the same shape,
        with 0 for padding.
        """
        metrics: list[Any] = []
        if self.ranking_loss.targets == "relevance":
            metrics = [RankingMetric("ndcg"), RankingMetric("mrr")]
        return {
            "loss": {features.SCORE: self.ranking_loss},
            "weighted_metrics": {features.SCORE: metrics},
        }
