"""Signatures of a `Predictor`, equal to those of its SavedModel.

They have the names, shapes and values of the signatures that `export.saved_model` writes. So a
client gets the same answers from a checkpoint and from its SavedModel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.long_texts import WINDOWS
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.inference import fill_mask, multiple_choice
from bert_keras.inference.batching import softmax
from bert_keras.predictor import Predictor, device_scope
from bert_keras.serving.signatures import (
    DEFAULT,
    ENTITY_PADDING,
    FLOAT,
    IDS,
    INT,
    STRING,
    Columns,
    Outputs,
    Signature,
    Spec,
    in_batches,
    joined_rows,
)

_TEXTS = {"text": Spec(STRING, (None,))}
_PAIRS = {**_TEXTS, "pair": Spec(STRING, (None,))}
_FLOATS, _INTS, _STRINGS = Spec(FLOAT, (None,)), Spec(INT, (None,)), Spec(STRING, (None,))
_ROWS_OF_FLOATS, _ROWS_OF_INTS = Spec(FLOAT, (None, None)), Spec(INT, (None, None))
_ROWS_OF_STRINGS = Spec(STRING, (None, None))


def predictor_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return signature name -> signature of a predictor. `serving_default` is the first."""
    signatures = {
        name: replace(signature, run=_with_decoded_bytes(signature.run))
        for name, signature in _SIGNATURES[predictor.task.task_name](predictor).items()
    }
    return {**signatures, IDS: _ids_signature(predictor)}


def _with_decoded_bytes(run: Callable[[Columns], Outputs]) -> Callable[[Columns], Outputs]:
    """Return a function that also takes bytes. Bytes that are not UTF-8 are dropped."""
    return lambda columns: run({name: _decoded(values) for name, values in columns.items()})


def _decoded(value: Any) -> Any:
    """Return a str, or nested lists of str, from a str, bytes, or nested lists of them."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "ignore")
    return value if isinstance(value, str) else [_decoded(item) for item in value]


def serves_task(task_name: str) -> bool:
    """Return whether models of a task answer texts, and so have signatures."""
    return task_name in _SIGNATURES


def _with_default(default: str, **signatures: Signature) -> dict[str, Signature]:
    """Return signatures by name, with the name `serving_default` for the one named `default`."""
    return {DEFAULT: signatures.pop(default), **signatures}


def _classification_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return the signatures of a classifier: labels of texts and of pairs."""

    def run(columns: Columns) -> Outputs:
        scores = predictor.predict_scores(columns["text"], columns.get("pair"))
        return _best_labels(predictor, scores)

    is_single = predictor.task.options.get("problem", "single_label") == "single_label"
    outputs = {"labels": _ROWS_OF_STRINGS, "scores": _ROWS_OF_FLOATS}
    outputs |= {"label": _STRINGS, "score": _FLOATS} if is_single else {"count": _INTS}
    texts, pairs = Signature(run, _TEXTS, outputs), Signature(run, _PAIRS, outputs)
    if predictor.task.reads_apart:
        return {DEFAULT: pairs}
    default = "pairs" if predictor.pairs else "texts"
    return _with_default(default, texts=texts, pairs=pairs)


def _best_labels(predictor: Predictor, scores: np.ndarray) -> Outputs:
    """Return labels and scores from probabilities [batch, classes], best first in each row.

    The outputs also have the best label, or the number of labels above the threshold if the model
    is multi-label.
    """
    options = predictor.options
    order = np.argsort(-scores, axis=1, kind="stable")[:, : options.get("top_k")]
    labels = np.array(predictor.label_names, object)[order]
    scores = np.take_along_axis(scores, order, axis=1)
    outputs = {"labels": labels, "scores": scores}
    if predictor.task.options.get("problem", "single_label") == "single_label":
        return {"label": labels[:, 0], "score": scores[:, 0], **outputs}
    counts = (scores >= options.get("threshold", 0.5)).sum(axis=1)
    return {"count": counts.astype(np.int32), **outputs}


def _regression_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return the signatures of a regression model: numbers for texts and for pairs."""

    def run(columns: Columns) -> Outputs:
        return {"scores": predictor.predict_scores(columns["text"], columns.get("pair"))}

    outputs = {"scores": _ROWS_OF_FLOATS}
    texts, pairs = Signature(run, _TEXTS, outputs), Signature(run, _PAIRS, outputs)
    default = "pairs" if predictor.pairs else "texts"
    return _with_default(default, texts=texts, pairs=pairs)


def _token_classification_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return the signature of a token classifier: the entities of texts."""

    def run(columns: Columns) -> Outputs:
        rows = []
        for entities in predictor.predict_entities(columns["text"], **predictor.options):
            row = {
                name: np.array([getattr(entity, name) for entity in entities], _dtype(padding))
                for name, padding in ENTITY_PADDING.items()
            }
            rows.append({**row, "count": np.int32(len(entities))})
        return joined_rows(rows)

    specs = (_ROWS_OF_STRINGS, _ROWS_OF_STRINGS, _ROWS_OF_INTS, _ROWS_OF_INTS, _ROWS_OF_FLOATS)
    outputs = {**dict(zip(ENTITY_PADDING, specs, strict=True)), "count": _INTS}
    return {DEFAULT: Signature(run, _TEXTS, outputs)}


def _dtype(padding: Any) -> Any:
    """Return the NumPy type of an output whose rows are padded with this value."""
    return {str: object, int: np.int32, float: np.float32}[type(padding)]


def _question_answering_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return the signature of a question answering model."""

    def run(columns: Columns) -> Outputs:
        options = {**predictor.options, "top_k": None}
        answers = predictor.predict_answers(columns["question"], columns["context"], **options)
        null_scores = np.array([answer.null_score for answer in answers], np.float32)
        return {
            "answer": np.array([answer.text for answer in answers], object),
            "start": np.array([answer.start for answer in answers], np.int32),
            "end": np.array([answer.end for answer in answers], np.int32),
            "score": np.array([answer.score for answer in answers], np.float32),
            "null_score": np.minimum(null_scores, np.finfo(np.float32).max),
        }

    inputs = {"question": _STRINGS, "context": _STRINGS}
    outputs = {"answer": _STRINGS, "start": _INTS, "end": _INTS}
    outputs |= {"score": _FLOATS, "null_score": _FLOATS}
    return {DEFAULT: Signature(run, inputs, outputs)}


def _multiple_choice_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return the signature of a multiple-choice model."""

    def run(columns: Columns) -> Outputs:
        options = [list(row) for row in columns["options"]]
        runner = predictor._runner()
        logits = multiple_choice.choice_logits(runner, list(columns["prompt"]), options)
        scores, best = softmax(logits), logits.argmax(axis=1)
        return {
            "index": best.astype(np.int32),
            "choice": np.array([row[i] for row, i in zip(options, best, strict=True)], object),
            "score": scores[np.arange(len(best)), best],
            "scores": scores,
        }

    inputs = {"prompt": _STRINGS, "options": _ROWS_OF_STRINGS}
    outputs = {"index": _INTS, "choice": _STRINGS, "score": _FLOATS, "scores": _ROWS_OF_FLOATS}
    return {DEFAULT: Signature(run, inputs, outputs)}


def _text_ranking_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return the signature of a ranker: the score of a query and a document."""

    def run(columns: Columns) -> Outputs:
        return {"scores": predictor.predict_pair_scores(columns["text"], columns["pair"])[:, None]}

    return {DEFAULT: Signature(run, _PAIRS, {"scores": _ROWS_OF_FLOATS})}


def _sentence_similarity_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return the signatures of a sentence encoder: vectors of texts, similarity of pairs."""
    vectors = Signature(
        lambda columns: {"sentence_vector": predictor.encode(columns["text"], **predictor.options)},
        _TEXTS,
        {"sentence_vector": _ROWS_OF_FLOATS},
    )
    similarity = Signature(
        lambda columns: {
            "similarity": predictor.similarity(
                columns["text"], columns["pair"], **predictor.options
            )
        },
        _PAIRS,
        {"similarity": _FLOATS},
    )
    default = "similarity" if predictor.pairs else "vectors"
    return _with_default(default, vectors=vectors, similarity=similarity)


def _feature_extraction_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return the signature of a bare encoder: all its outputs for texts."""

    def run(columns: Columns) -> Outputs:
        runner = predictor._runner()
        encoded = runner.encode([predictor.prompt + text for text in columns["text"]])
        rows: list[Any] = [None] * len(encoded)
        for batch, outputs in runner.run(encoded):
            for row, index in enumerate(batch):
                rows[index] = _token_vectors(encoded, outputs, row, index)
        if predictor.options.get("long_texts") == WINDOWS:  # the other outputs are of the beginning
            for row, vector in zip(rows, predictor.encode(columns["text"]), strict=True):
                row["sentence_vector"] = vector
        return joined_rows(rows, runner.tokenizer.pad_id)

    outputs = {
        "sentence_vector": _ROWS_OF_FLOATS,
        features.SEQUENCE_OUTPUT: Spec(FLOAT, (None, None, None)),
        features.TOKEN_IDS: _ROWS_OF_INTS,
        features.PADDING_MASK: _ROWS_OF_INTS,
    }
    if features.POOLED_OUTPUT in predictor.task.output:
        outputs[features.POOLED_OUTPUT] = _ROWS_OF_FLOATS
    return {DEFAULT: Signature(run, _TEXTS, outputs)}


def _token_vectors(
    encoded: EncodedTexts, outputs: Mapping[str, np.ndarray], row: int, index: int
) -> dict[str, np.ndarray]:
    """Return the outputs of a bare encoder for one text, without padding.

    Args:
        encoded: all texts of the request.
        outputs: outputs of a batch, output name -> array [batch, ...].
        row: index of the text in the batch.
        index: index of the text in the request.
    """
    length = encoded.lengths[index]
    vectors = outputs[features.SEQUENCE_OUTPUT][row, :length].astype(np.float32)
    result = {
        "sentence_vector": vectors.mean(axis=0),
        features.SEQUENCE_OUTPUT: vectors,
        features.TOKEN_IDS: encoded[index].astype(np.int32),
        features.PADDING_MASK: np.ones(length, np.int32),
    }
    if features.POOLED_OUTPUT in outputs:
        result[features.POOLED_OUTPUT] = outputs[features.POOLED_OUTPUT][row].astype(np.float32)
    return result


def _fill_mask_signatures(predictor: Predictor) -> dict[str, Signature]:
    """Return the signatures of a masked language model.

    A model with a next sentence prediction head has a second signature, `next_sentence`.
    """

    def run(columns: Columns) -> Outputs:
        top_k = predictor.options.get("top_k", 5)
        filled = fill_mask.fill_mask(
            predictor._runner(), list(columns["text"]), top_k, require_masks=False
        )
        rows = []
        for masks in filled:
            shape = (len(masks), top_k)
            fills = [fill for mask in masks for fill in mask]
            row: dict[str, Any] = {
                "tokens": np.array([fill.token for fill in fills], object).reshape(shape),
                "token_ids": np.array([f.token_id for f in fills], np.int32).reshape(shape),
                "scores": np.array([f.score for f in fills], np.float32).reshape(shape),
            }
            rows.append({**row, "mask_count": np.int32(len(masks))})
        return joined_rows(rows, predictor.tokenizer.pad_id)

    outputs = {
        "tokens": Spec(STRING, (None, None, None)),
        "token_ids": Spec(INT, (None, None, None)),
        "scores": Spec(FLOAT, (None, None, None)),
        "mask_count": _INTS,
    }
    signatures = {DEFAULT: Signature(run, _TEXTS, outputs)}
    if features.NSP in predictor.task.output:
        signatures["next_sentence"] = Signature(
            lambda columns: {"score": predictor.next_sentence(columns["text"], columns["pair"])},
            _PAIRS,
            {"score": _FLOATS},
        )
    return signatures


def _ids_signature(predictor: Predictor) -> Signature:
    """Return the signature of the bare model: int32 inputs by name, float32 outputs by name."""
    task: Any = predictor.task

    def run(columns: Columns) -> Outputs:
        inputs = {name: np.asarray(columns[name], np.int32) for name in specs}
        with device_scope(predictor.device):
            outputs = task.predict_on_batch(inputs)
        return {name: np.asarray(value, np.float32) for name, value in outputs.items()}

    specs = {tensor.name: Spec(INT, tuple(tensor.shape)) for tensor in task.inputs}
    outputs = {name: Spec(FLOAT, tuple(tensor.shape)) for name, tensor in task.output.items()}
    return Signature(in_batches(run, predictor.batch_size), specs, outputs, has_text_rows=False)


# Task name -> function that builds the signatures of its models. `export.graph.signatures` has the
# same table for SavedModels.
_SIGNATURES: dict[str, Callable[[Predictor], dict[str, Signature]]] = {
    "text_classification": _classification_signatures,
    "multi_label_classification": _classification_signatures,
    "text_regression": _regression_signatures,
    "pair_classification": _classification_signatures,
    "token_classification": _token_classification_signatures,
    "question_answering": _question_answering_signatures,
    "multiple_choice": _multiple_choice_signatures,
    "text_ranking": _text_ranking_signatures,
    "sentence_similarity": _sentence_similarity_signatures,
    "feature_extraction": _feature_extraction_signatures,
    "fill_mask": _fill_mask_signatures,
    "pretraining": _fill_mask_signatures,
}
