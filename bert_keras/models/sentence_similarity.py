"""Sentence embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import keras
import numpy as np

from bert_keras import features
from bert_keras.data import EncodedTexts, SupervisedExamples
from bert_keras.data.columns import texts_of
from bert_keras.data.long_texts import encode_long
from bert_keras.inference import prompt_of, prompt_options
from bert_keras.inference.sentence_similarity import normalized_again, prefix_length, prompted
from bert_keras.layers import SentencePooling
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class SentenceEncoder(Task):
    """Makes one vector of a text (Reimers & Gurevych, 2019, §3).

    Texts of similar meaning have similar vectors.

    Inputs: the encoder's; without `include_prompt` also `prompt_length`, int32 [batch, 1]: the
    number of tokens at the beginning that are not pooled, [CLS] included. `Predictor` sets it.
    Output: {"sentence_vector": float32 [batch, size]}. The size is the encoder's hidden_size times
    the number of poolings, or that of the last dense layer, cut to `truncate_dim`.

    Args:
        encoder: the encoder.
        pooling: one name, or a list of names whose vectors are joined: "mean" or "max" of the
            tokens' vectors, "cls", the first one, "lasttoken", "mean_sqrt_len_tokens", the sum
            divided by the square root of the number of tokens, and "weightedmean", in which
            later tokens count more.
        normalize: whether vectors have length 1, so that their product is the cosine.
        include_prompt: whether the tokens of a prompt are pooled with the others.
        dense: dense layers after the pooling, such as {"units": 512, "activation": "tanh"}; see
            `SentencePooling`.
        truncate_dim: number of a vector's first dimensions to keep, after the normalisation; None
            for all.
        similarity: measure between two vectors, a name of `features.SIMILARITIES`: "cosine",
            "dot", or the negative distance, "euclidean" or "manhattan".
        prompts: texts to put before the user's own, by name, such as {"query": "query: "}.
        default_prompt_name: name of the prompt to use where the user names none; None for none.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.

    Raises:
        ValueError: an unknown pooling, activation or similarity, or another value that is out of
            range.
    """

    task_name = "sentence_similarity"
    takes_pairs = True
    takes_windows = True

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
        # Options with default values are not written, so that earlier versions open the folder.
        options |= {name: value for name, (value, usual) in unusual.items() if value != usual}
        options |= prompt_options(prompts, default_prompt_name)
        outputs = {features.SENTENCE_VECTOR: vectors}
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.head = head

    def vector_model(self) -> SentenceEncoder:
        """Return the model that makes vectors: the sentence encoder itself."""
        return self

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode texts and their target vectors; see `FitsText.examples_of`.

        `y` has the vectors of a teacher, float [texts, size].
        """
        if features.PROMPT_LENGTH in {tensor.name for tensor in self.inputs}:
            raise ValueError(
                "A SentenceEncoder with include_prompt=False trains on features alone. Pass "
                "batches with the input `prompt_length`, or make it with include_prompt=True."
            )
        prompt, tokenizer = prompt_of(self.options), self.required_tokenizer()
        reading = {name: options.pop(name, None) for name in ("long_texts", "stride")}
        sizes = {"max_length": options["max_length"], "prefix": prefix_length(tokenizer, prompt)}
        texts = prompted(texts_of("text", columns[0]), prompt)
        rows = encode_long(tokenizer, texts, **sizes, **reading)
        vectors = {features.SENTENCE_VECTOR: np.asarray(y, np.float32)}
        return SupervisedExamples(rows, vectors, **options)

    def logits_of(self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any):
        """Return the vectors of texts: float32 [texts, size]."""
        return self._vectors(texts_of("text", columns[0]), batch_size=batch_size, **reading)

    def outputs_of(self, rows: EncodedTexts) -> dict[str, np.ndarray]:
        """Return the vectors of texts in windows, by the name of the output."""
        ((name, vectors),) = super().outputs_of(rows).items()
        return {name: normalized_again(vectors, rows, self.options)}

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the mean squared error to the vectors of a teacher (Reimers & Gurevych, 2020).

        Labels are {"sentence_vector": float [batch, size]}.
        """
        similarity = keras.metrics.CosineSimilarity(name="cosine_similarity")
        return {
            "loss": {features.SENTENCE_VECTOR: keras.losses.MeanSquaredError()},
            "weighted_metrics": {features.SENTENCE_VECTOR: [similarity]},
        }
