"""Loaded models: one class for checkpoints, SavedModels and exports of other runtimes."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.long_texts import WINDOWS
from bert_keras.data.model_inputs import EncodedTexts, add_special_tokens
from bert_keras.errors import UsageError
from bert_keras.inference.sentence_similarity import means
from bert_keras.models import BertEncoder, Task
from bert_keras.predictor import Predictor, device_scope
from bert_keras.serving.predictor_signatures import predictor_signatures, serves_task
from bert_keras.serving.signatures import DEFAULT, Columns, Outputs, Signature, Spec
from bert_keras.task_names import WINDOW_TASKS
from bert_keras.tokenizers import Tokenizer

VECTOR_TASKS = ("sentence_similarity", "feature_extraction")
LABEL_TASKS = ("text_classification", "multi_label_classification", "pair_classification")
# Tasks whose models encode the two texts of a pair in separate rows.
_SEPARATE_TASKS = ("sentence_similarity", "pair_classification")
OTHER = "other"  # task of a SavedModel that another program wrote
MOST_ATTENTION = 256  # maximum number of tokens whose attention the page draws
# A text with more characters than this times `max_length` is shortened before it is tokenised.
_CHARACTERS_PER_TOKEN = 64
_MOST_ANSWERS = 20  # maximum number of answers to a question on the page


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A token of a text or of a pair of texts.

    Attributes:
        token: the token as the vocabulary has it, such as "##s".
        id: its index in the vocabulary.
        start: index of its first character in its text; None for an added special token.
        end: index after its last character; None for an added special token.
        segment: 0 for the first text, 1 for the second.
        special: True for an added special token.
    """

    token: str
    id: int
    start: int | None
    end: int | None
    segment: int
    special: bool


class LoadedModel:
    """A version of a model in memory. Its signatures run in the thread of its `Batcher`.

    Args:
        format: "checkpoint", "saved_model", or the format of another export, such as "onnx".
        backend: name of the library that computes the outputs.
        dtype: name of the type in which it computes.

    Attributes:
        task: name of the task, or "other".
        signatures: signature name -> signature; the first is `serving_default`.
        tokenizer: tokenizer of the model; None if it is not known.
        labels: labels of a text or token classifier; None for other tasks.
        max_length: maximum number of tokens of a text; None if it is not known.
        mask_token: mask token, such as "[MASK]"; None for models that fill no masks.
        takes_pairs: True if the model answers both single texts and pairs.
        pad_id: id of the padding token.
        prompt: text that is put before each text, or before the first text of a pair; "" for none.
        activation: name of the activation of a regression's outputs; None for none.
        similarity: measure of the similarity of two vectors, a name in `features.SIMILARITIES`.
        long_texts: "windows" if texts of more than `max_length` tokens are read in windows by the
            options of the predictions; else None or "truncate".
        why_not: "answer", "tokens" or "attention" -> reason why the page does not offer it.
        more: signatures that a client cannot call by name: "ranked_answers" and "attention" of the
            page, and "vectors_of_ids" of `/v1/embeddings`.
    """

    def __init__(self, *, format: str, backend: str, dtype: str):  # noqa: A002
        self.format, self.backend, self.dtype = format, backend, dtype
        self.task = OTHER
        self.signatures: Mapping[str, Signature] = {}
        self.tokenizer: Tokenizer | None = None
        self.labels: list[str] | None = None
        self.max_length: int | None = None
        self.mask_token: str | None = None
        self.takes_pairs = False
        self.pad_id = 0
        self.prompt = ""
        self.activation: str | None = None
        self.similarity = features.COSINE
        self.long_texts: str | None = None
        self.why_not: dict[str, str] = {}
        self.more: dict[str, Signature] = {}
        self._only_vectors: Signature | None = None

    def take_options(self, options: Mapping[str, Any]) -> None:
        """Set labels, activation and similarity from the options of the task. Set `task` first."""
        labels = options.get("labels")
        self.labels = list(labels) if labels and self.task != "text_regression" else None
        self.activation = options.get("activation")
        self.similarity = options.get("similarity", features.COSINE)

    def tokens(
        self, text: str, pair: str | None = None, *, max_length: int | None = None
    ) -> tuple[list[Token], bool]:
        """Return the tokens that the model reads, and whether a text was truncated.

        Args:
            text: first text.
            pair: second text; None for a single text.
            max_length: maximum number of tokens, if smaller than that of the model.
        """
        assert self.tokenizer is not None
        limits = [limit for limit in (max_length, self.max_length) if limit is not None]
        limit = min(limits, default=sys.maxsize)
        pair = None if pair is None else self.shortened(pair)
        return tokens_of(self.tokenizer, self.shortened(text), pair, limit)

    def count_tokens(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[int]:
        """Return the number of tokens of each row before truncation.

        The prompt and the special tokens are included.
        """
        assert self.tokenizer is not None
        if not len(texts):
            return []
        texts = [self.prompt + text for text in texts]
        return self.tokenizer(texts, pairs)[features.PADDING_MASK].sum(axis=1).tolist()

    @property
    def reads_windows(self) -> bool:
        """True if the model reads a long text in overlapping windows, and never truncates it."""
        return self.task in WINDOW_TASKS or self.long_texts == WINDOWS

    def shortened(self, text: str) -> str:
        """Return the beginning of a very long text, with more tokens than the model reads.

        Tokenising megabytes of text takes seconds of time and gigabytes of memory. The answer is
        the same, because the tokens of the beginning do not depend on the end. A text that is
        shorter, or whose model reads windows, is returned unchanged.
        """
        if self.tokenizer is None or self.max_length is None or self.reads_windows:
            return text
        size = _CHARACTERS_PER_TOKEN * self.max_length
        while size < len(text):
            beginning = text[:size]
            if self.count_tokens([beginning])[0] > 2 * self.max_length:
                return beginning
            size *= 4
        return text

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs of `serving_default`."""
        return list(self.signatures[DEFAULT].inputs) if DEFAULT in self.signatures else []

    @property
    def has_vectors(self) -> bool:
        """True if the model returns vectors of texts."""
        return self.vector_signature is not None

    @property
    def vector_signature(self) -> Signature | None:
        """The signature with `sentence_vector` of texts; None if there is none.

        The signature of a bare encoder also returns the vectors of all tokens, which are gigabytes
        for a thousand texts. They are dropped after each batch.
        """
        complete = self._with_output("sentence_vector")
        if complete is None or features.SEQUENCE_OUTPUT not in complete.outputs:
            return complete
        if self._only_vectors is None:  # kept, because only rows of the same object run together

            def run(columns: Columns) -> Outputs:
                """Return `sentence_vector` alone."""
                return {"sentence_vector": complete.run(columns)["sentence_vector"]}

            outputs = {"sentence_vector": complete.outputs["sentence_vector"]}
            self._only_vectors = dataclasses.replace(complete, run=run, outputs=outputs)
        return self._only_vectors

    @property
    def similarity_signature(self) -> Signature | None:
        """The signature with the `similarity` of two texts; None if there is none."""
        return self._with_output("similarity")

    def of_inputs(self, *names: str) -> Signature | None:
        """Return the first signature with exactly these inputs; None if there is none."""
        for signature in self.signatures.values():
            if sorted(signature.inputs) == sorted(names):
                return signature
        return None

    def _with_output(self, output: str) -> Signature | None:
        """Return the first signature of texts with this output; None if there is none."""
        for signature in self.signatures.values():
            if output in signature.outputs and signature.has_text_rows:
                return signature
        return None

    def truncated(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> int:
        """Return the number of rows that are truncated, because they are above `max_length`."""
        if pairs is not None and self.task in _SEPARATE_TASKS:
            return len(self._truncated_rows(texts) | self._truncated_rows(pairs))
        return len(self._truncated_rows(texts, pairs))

    def _truncated_rows(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> set[int]:
        """Return the indices of the rows that are truncated.

        Most texts need not be tokenised for it, because a text of n bytes has at most n tokens.
        """
        if self.max_length is None or self.reads_windows:
            return set()
        # No family adds more than 4 special tokens to a pair of texts.
        limit = self.max_length - 4 - len(self.prompt.encode("utf-8", "ignore"))
        seconds = pairs if pairs is not None else [""] * len(texts)
        long = [
            index
            for index, pair in enumerate(zip(texts, seconds, strict=True))
            if sum(len(text.encode("utf-8", "ignore")) for text in pair) > limit
        ]
        if not long:
            return set()
        firsts = [self.shortened(texts[index]) for index in long]
        others = None if pairs is None else [self.shortened(pairs[index]) for index in long]
        counts = self.count_tokens(firsts, others)
        return {i for i, count in zip(long, counts, strict=True) if count > self.max_length}


class PredictorModel(LoadedModel):
    """A model with a `Predictor`: a checkpoint in Keras, or an export in another runtime.

    Args:
        predictor: predictor of the model.
        format: "checkpoint", or the format of the export.
        backend: name of the library that computes the outputs.
        dtype: name of the type in which it computes.

    Raises:
        UsageError: if the task takes no texts, such as ELECTRA pretraining.
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        format: str = "checkpoint",  # noqa: A002
        backend: str,
        dtype: str,
    ):
        super().__init__(format=format, backend=backend, dtype=dtype)
        task = predictor.task
        if not serves_task(task.task_name):
            raise UsageError(
                f"A {type(task).__name__} answers no texts, so it cannot be served. Serve a task "
                "that was fine-tuned from it, or its encoder (`task.encoder.save_to_preset`)."
            )
        self.predictor, self.tokenizer = predictor, predictor.tokenizer
        self.task = task.task_name
        self.long_texts = predictor.options.get("long_texts")
        predictor.on_cut = lambda _: None  # responses have headers with the number of such texts
        self.signatures = predictor_signatures(predictor)
        self.max_length, self.pad_id = predictor.max_length, predictor.tokenizer.pad_id
        self.prompt = "" if task.reads_apart else predictor.prompt
        self.take_options(task.options)
        if task.fills_masks:
            self.mask_token = predictor.tokenizer.id_to_token(predictor.tokenizer.mask_id)
        reads_one = len(task.answer_inputs()) == 1 and not task.reads_apart
        self.takes_pairs = task.takes_pairs and reads_one
        self._attention_encoder: Any = None  # built by the first request for the attention
        self._add_more()

    def _add_more(self) -> None:
        """Fill `more`, and `why_not` for signatures that the model does not have."""
        if self.task == "question_answering":
            inputs = self.signatures[DEFAULT].inputs
            self.more["ranked_answers"] = Signature(self._ranked_answers, inputs, {})
        if self.has_vectors:
            ids = {features.TOKEN_IDS: Spec("int32", (None, None))}
            self.more["vectors_of_ids"] = Signature(
                self._vectors_of_ids, ids, {}, has_text_rows=False
            )
        if isinstance(self.predictor.task, Task | BertEncoder):
            self.more["attention"] = Signature(self._attention, {}, {}, has_text_rows=False)
        else:
            self.why_not["attention"] = (
                f"A model in the format {self.format} has no attention outputs. Serve the "
                "checkpoint folder to see the attention."
            )

    # === Further signatures ===

    def _ranked_answers(self, columns: Columns) -> Outputs:
        """Return `answers` of questions: an object array [batch] of lists of dictionaries.

        A dictionary has the fields of an `Answer`; the best is the first of its list.
        """
        options = {**self.predictor.options, "top_k": _MOST_ANSWERS}
        ranked = self.predictor.predict_answers(columns["question"], columns["context"], **options)
        answers = np.empty(len(ranked), object)
        answers[:] = [[dataclasses.asdict(answer) for answer in row] for row in ranked]
        return {"answers": answers}

    def _vectors_of_ids(self, columns: Columns) -> Outputs:
        """Return `sentence_vector` [batch, size] of rows of token ids.

        The ids come without special tokens, which are added here.
        """
        tokenizer = self.predictor.tokenizer
        max_ids = self.predictor.max_length - tokenizer.scheme.num_added(1)
        rows = [add_special_tokens(tokenizer, ids[:max_ids]) for ids in columns["token_ids"]]
        encoded = EncodedTexts.of([r[0] for r in rows], [r[1] for r in rows], self.pad_id)
        model = self.predictor.task.vector_model()
        runner: Any = _EncodedRunner(self.predictor._runner_of(model), encoded)
        if features.SENTENCE_VECTOR in model.output:
            return {"sentence_vector": runner.per_example(features.SENTENCE_VECTOR, encoded)}
        return {"sentence_vector": means(runner, [], "")}

    def _attention(self, columns: Columns) -> Outputs:
        """Return `attention` of one text or pair, uint8 [layers, heads, from, to].

        The weights are scaled from 0..1 to 0..255; those of pruned heads are 0. The columns are
        "text" and, for a pair, "pair": lists of one text.
        """
        if self._attention_encoder is None:
            self._attention_encoder = self.predictor.encoder.with_outputs(attentions=True)
        encoder = self._attention_encoder
        length = min(self.predictor.max_length, MOST_ATTENTION)
        inputs = self.predictor.tokenizer(columns["text"], columns.get("pair"), max_length=length)
        with device_scope(self.predictor.device):
            outputs = encoder.predict_on_batch({x.name: inputs[x.name] for x in encoder.inputs})
        config = self.predictor.encoder.config
        length = inputs[features.TOKEN_IDS].shape[1]
        weights = np.zeros((config.num_layers, config.num_heads, length, length), np.uint8)
        for layer, values in enumerate(outputs[features.ATTENTIONS]):
            scaled = np.rint(255 * np.asarray(values, np.float32)[0]).astype(np.uint8)
            weights[layer, config.heads_of_layer(layer)] = scaled
        return {"attention": weights}


class _EncodedRunner:
    """A runner whose texts are already encoded, because `means` encodes texts itself."""

    def __init__(self, runner: Any, encoded: EncodedTexts):
        self._runner, self._encoded = runner, encoded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def encode(self, *arguments: Any, **options: Any) -> EncodedTexts:
        """Return the encoded texts; the arguments are ignored."""
        del arguments, options
        return self._encoded


def tokens_of(
    tokenizer: Tokenizer, text: str, pair: str | None, max_length: int
) -> tuple[list[Token], bool]:
    """Return the tokens of a text or pair, and whether it was truncated to `max_length` tokens."""
    complete = tokenizer.encode(text, pair)
    encoding = tokenizer.encode(text, pair, max_length=max_length)
    tokens = []
    segment = 0
    for index, token in enumerate(encoding.tokens):
        special = bool(encoding.special_tokens_mask[index])
        start, end = (None, None) if special else encoding.offsets[index]
        tokens.append(Token(token, encoding.ids[index], start, end, segment, special))
        is_separator = special and index > 0 and encoding.ids[index] == tokenizer.sep_id
        segment = 1 if is_separator and pair is not None else segment
    return tokens, len(encoding) < len(complete)
