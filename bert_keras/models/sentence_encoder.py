"""Texts as vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import keras
import numpy as np

from bert_keras import features
from bert_keras.data import SupervisedExamples, encode
from bert_keras.data.columns import texts_of
from bert_keras.inference import prompt_of, prompt_options
from bert_keras.inference.sentence_similarity import prompted
from bert_keras.layers import SentencePooling
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class SentenceEncoder(Task):
    """Makes a vector of a text; texts that mean the same have similar ones.

    Reimers & Gurevych, 2019, §3. Inputs: the encoder's; without `include_prompt` also
    `prompt_length`, int32 [batch, 1]: how many tokens at the beginning are not pooled, [CLS]
    counted. `Predictor` fills it in.
    Output: {"sentence_vector": float32 [batch, size]}; the size is the encoder's hidden_size times
    the number of poolings, or that of the last dense layer, cut to `truncate_dim`.

    Args:
        encoder: the encoder.
        pooling: one name, or a list of names whose vectors are joined: "mean" or "max" of the
            tokens' vectors, "cls", the first one, "lasttoken", "mean_sqrt_len_tokens", the sum
            divided by the square root of the number of tokens, and "weightedmean", in which
            later tokens count more.
        normalize: whether vectors have length 1, so that their product is the cosine.
        include_prompt: whether the tokens of a prompt are pooled with the others.
        dense: dense layers behind the pooling, such as {"units": 512, "activation": "tanh"}; see
            `SentencePooling`.
        truncate_dim: keep that many of a vector's first numbers, after the normalisation; None
            for all.
        similarity: how two vectors are compared, a name of `features.SIMILARITIES`: "cosine",
            "dot", or the negative distance, "euclidean" or "manhattan".
        prompts: texts that stand before the user's own, by name, such as {"query": "query: "}.
        default_prompt_name: the one that is used where none is asked for; None for none.
        name: of the Keras model.
        tokenizer: of the encoder; None for a task that takes features alone.

    Raises:
        ValueError: an unknown pooling, activation or similarity, or another value that is out of
            range.
    """

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        pooling: str | Sequence[str] = "mean",
        normalize: bool = True,
        include_prompt: bool = True,
        dense: Sequence[Mapping[str, Any]] = (),
        truncate_dim: int | None = None,
        similarity: str = features.COSINE,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        name: str = "sentence_encoder",
        tokenizer: Tokenizer | None = None,
    ):
        if similarity not in features.SIMILARITIES:
            raise ValueError(
                f"`similarity` must be one of {', '.join(features.SIMILARITIES)}. "
                f"Received: similarity={similarity!r}"
            )
        # === Layers ===
        head = SentencePooling(
            pooling, normalize, dense, truncate_dim, name=features.SENTENCE_VECTOR
        )
        # === Functional model ===
        inputs = task_inputs(encoder)
        prompt_length = None
        if not include_prompt:
            prompt_length = keras.Input((1,), dtype="int32", name=features.PROMPT_LENGTH)
            inputs = {**inputs, features.PROMPT_LENGTH: prompt_length}
        tokens = {name: x for name, x in inputs.items() if name != features.PROMPT_LENGTH}
        sequence = encoder(tokens)[features.SEQUENCE_OUTPUT]
        vectors = head(sequence, inputs[features.PADDING_MASK], prompt_length)
        # === Config ===
        complete = head.options
        options: dict[str, Any] = {"pooling": complete["pooling"], "normalize": normalize}
        unusual = {
            "include_prompt": (include_prompt, True),
            "dense": (complete["dense"], []),
            "truncate_dim": (head.truncate_dim, None),
            "similarity": (similarity, features.COSINE),
        }
        # What is as usual is not written, so that earlier versions open the folder.
        options |= {name: value for name, (value, usual) in unusual.items() if value != usual}
        options |= prompt_options(prompts, default_prompt_name)
        outputs = {features.SENTENCE_VECTOR: vectors}
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.head = head

    def vector_model(self) -> SentenceEncoder:
        """The sentence encoder itself."""
        return self

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode texts and the vectors that they are to have; see `FitsText.examples_of`."""
        if features.PROMPT_LENGTH in {tensor.name for tensor in self.inputs}:
            raise ValueError("A model with include_prompt=False trains on features alone.")
        texts = prompted(texts_of("text", columns[0]), prompt_of(self.options))
        rows = encode(self.required_tokenizer(), texts, max_length=options["max_length"])
        vectors = {features.SENTENCE_VECTOR: np.asarray(y, np.float32)}
        return SupervisedExamples(rows, vectors, **options)

    def logits_of(self, columns: Sequence[Any], batch_size: int | None = None) -> np.ndarray:
        """Return the vectors of texts: float32 [texts, size]."""
        return self._vectors(texts_of("text", columns[0]), batch_size=batch_size)

    def loss_and_metrics(self) -> dict[str, Any]:
        """Mean squared error to the vectors of a teacher (Reimers & Gurevych, 2020).

        Labels {"sentence_vector": float [batch, size]}.
        """
        similarity = keras.metrics.CosineSimilarity(name="cosine_similarity")
        return {
            "loss": {features.SENTENCE_VECTOR: keras.losses.MeanSquaredError()},
            "weighted_metrics": {features.SENTENCE_VECTOR: [similarity]},
        }
