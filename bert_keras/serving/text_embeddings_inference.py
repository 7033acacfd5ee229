"""Hugging Face's Text Embeddings Inference (TEI) protocol, and Cohere's for re-ranking.

`/embed`, `/predict`, `/rerank` and `/v1/rerank` name no model in the path, so the first model of
the command line that can answer is used. `/v1/rerank` may name one.
Sources: https://huggingface.github.io/text-embeddings-inference,
https://docs.cohere.com/reference/rerank
"""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bert_keras.retrieval.quantization import unit_length
from bert_keras.serving.http_json import json_response, read_object
from bert_keras.serving.http_requests import (
    RequestError,
    Service,
    required,
    run,
    run_vectors,
    shown,
    texts_from,
    truncated,
    version_of,
)
from bert_keras.serving.loaded_model import LABEL_TASKS, LoadedModel
from bert_keras.serving.ranking import (
    can_rank,
    can_score_pairs,
    ranking_model,
    ranking_scores,
    truncated_rows,
)
from bert_keras.serving.versions import ServedModel

_PAIR = ("text", "pair")
_ROWS = (
    "`inputs` must be a text, a pair [text, text], or a list of lists of one text or two, such as "
    "[[text], [text, text]]."
)


def can_embed(model: LoadedModel) -> bool:
    """Return whether a model answers `/embed`."""
    return model.has_vectors


def can_predict(model: LoadedModel) -> bool:
    """Return whether a model answers `/predict`."""
    return model.task in LABEL_TASKS


def first_models(service: Service) -> dict[str, ServedModel | None]:
    """Return path -> model that answers it, for paths that name no model."""
    reranker = ranking_model(service)
    return {
        "/embed": service.first(can_embed),
        "/predict": service.first(can_predict),
        "/rerank": reranker,
        "/v1/rerank": reranker,
    }


def routes(service: Service) -> list[Route]:
    """Return the routes of the protocols."""

    async def embed(request: Request) -> Response:
        return await _embed(service, request)

    async def predict(request: Request) -> Response:
        return await _predict(service, request)

    async def rerank(request: Request) -> Response:
        return await _rerank(service, request)

    async def cohere_rerank(request: Request) -> Response:
        return await _cohere_rerank(service, request)

    handlers = (embed, predict, rerank, cohere_rerank)
    paths = ("/embed", "/predict", "/rerank", "/v1/rerank")
    return [
        Route(path, handler, methods=["POST"])
        for path, handler in zip(paths, handlers, strict=True)
    ]


def _required(model: ServedModel | None, needs: str) -> ServedModel:
    """Return a model that is not None.

    Raises:
        RequestError: if it is None; status 424, as in TEI.
    """
    if model is None:
        raise RequestError(424, f"No model of this server can answer: it needs {needs}.")
    return model


def _check_length(model: LoadedModel, body: dict[str, Any], count: int, rows: int) -> None:
    """Check that no text or pair is truncated, unless the body has "truncate": true.

    Args:
        model: the model.
        body: body of the request.
        count: number of texts or pairs that the model truncates.
        rows: number of all texts or pairs.

    Raises:
        RequestError: if a text is too long; status 413, as in TEI.
    """
    may_truncate = _flag(body, "truncate", False)
    if count and not may_truncate:
        raise RequestError(
            413,
            f"{count} of {rows} inputs have more than {model.max_length} tokens. Shorten "
            'them, or send "truncate": true.',
        )


def _truncated_header(count: int) -> dict[str, str]:
    """Return the header with the number of texts or pairs that were truncated."""
    return {"X-Truncated-Texts": str(count)}


def _flag(body: dict[str, Any], name: str, default: bool) -> bool:
    """Return a boolean value of the body, or the default if it is missing.

    Raises:
        RequestError: if it is something else.
    """
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RequestError(400, f"`{name}` must be true or false. Received: {shown(value)}.")
    return value


# === Vectors and labels ===


async def _embed(service: Service, request: Request) -> Response:
    """Answer `/embed`: a list of vectors."""
    body = await read_object(request, service.limits)
    model = _required(service.first(can_embed), "a model with vectors, such as a SentenceEncoder")
    texts = texts_from(body.get("inputs"), "inputs", service.limits)
    count = await truncated(model.newest.model, texts)
    _check_length(model.newest.model, body, count, len(texts))
    answered = await run_vectors(request, service, model, texts)
    vectors = np.asarray(answered.outputs["sentence_vector"], np.float32)
    if _flag(body, "normalize", True):
        vectors = unit_length(vectors)
    return json_response(vectors, headers=_truncated_header(count))


async def _predict(service: Service, request: Request) -> Response:
    """Answer `/predict`: labels with scores, best first, for each text or pair."""
    body = await read_object(request, service.limits)
    model = _required(service.first(can_predict), "a model with labels")
    if _flag(body, "raw_scores", False):
        raise RequestError(400, "`raw_scores` is not available here: scores are probabilities.")
    rows, is_one = _text_rows(body.get("inputs"), service)
    answers: list[Any] = [None] * len(rows)
    num_truncated = 0
    for names in (("text",), _PAIR):  # texts and pairs have signatures of their own
        indices = [index for index, row in enumerate(rows) if len(row) == len(names)]
        if not indices:
            continue
        if model.newest.model.of_inputs(*names) is None:
            kind = "single texts" if names == ("text",) else "pairs of texts"
            raise RequestError(400, f"The model {model.name} does not take {kind}.")
        columns = [list(column) for column in zip(*(rows[i] for i in indices), strict=True)]
        count = await truncated(model.newest.model, *columns)
        _check_length(model.newest.model, body, count, len(indices))
        num_truncated += count
        labels_and_scores = await _labels(
            request, service, model, dict(zip(names, columns, strict=True))
        )
        for index, answer in zip(indices, labels_and_scores, strict=True):
            answers[index] = answer
    headers = _truncated_header(num_truncated)
    return json_response(answers[0] if is_one else answers, headers=headers)


async def _labels(
    request: Request, service: Service, model: ServedModel, columns: dict[str, list[str]]
) -> list[list[dict[str, Any]]]:
    """Return the labels of each text or pair with their scores, best first.

    Args:
        request: the request.
        service: the server's models and limits.
        model: a model with labels.
        columns: `text`, or `text` and `pair` -> texts.
    """
    answered = await run(
        request,
        service,
        lambda: version_of(model),
        lambda loaded: required(loaded.of_inputs(*columns)),
        columns,
        len(columns["text"]),
    )
    labels, scores = (answered.outputs[name].tolist() for name in ("labels", "scores"))
    return [
        [{"score": score, "label": label} for label, score in zip(*row, strict=True)]
        for row in zip(labels, scores, strict=True)
    ]


def _text_rows(value: Any, service: Service) -> tuple[list[list[str]], bool]:
    """Return `inputs` of `/predict` as rows of one or two texts, and True if it was a single row.

    As in TEI, a list of two texts is one pair, and several rows are a list of lists.

    Raises:
        RequestError: if it is something else.
    """
    listed = value if isinstance(value, list) else [value]
    is_one = all(isinstance(item, str) for item in listed)
    rows = [listed] if is_one else listed
    if not all(isinstance(row, list) and len(row) in (1, 2) for row in rows):
        raise RequestError(400, f"{_ROWS} Received: {shown(value)}.")
    texts_from([text for row in rows for text in row], "inputs", service.limits)
    return rows, is_one


# === Ranks ===


async def _scores(
    service: Service,
    request: Request,
    model: ServedModel,
    body: dict[str, Any],
    query: str,
    texts: list[str],
) -> tuple[np.ndarray, dict[str, str]]:
    """Return the score of each text for a query, float32 [texts], and headers."""
    loaded = model.newest.model
    count = await truncated_rows(service, loaded, query, texts)
    _check_length(loaded, body, count, len(texts))
    scores, _ = await ranking_scores(request, service, model, query, texts)
    return scores, _truncated_header(count)


async def _rerank(service: Service, request: Request) -> Response:
    """Answer `/rerank`: indices of texts with their scores, best first."""
    body = await read_object(request, service.limits)
    model = _required(ranking_model(service), "a model that scores pairs of texts")
    query = _query(body)
    texts = texts_from(body.get("texts"), "texts", service.limits)
    returns_text = _flag(body, "return_text", False)
    is_raw = _flag(body, "raw_scores", False)
    scores, headers = await _scores(service, request, model, body, query, texts)
    loaded = model.newest.model
    if not is_raw and can_score_pairs(loaded) and loaded.activation is None:
        scores = 1 / (1 + np.exp(-scores))  # TEI's scores are between 0 and 1
    ranked = [
        {"index": index, "score": float(scores[index])}
        | ({"text": texts[index]} if returns_text else {})
        for index in np.argsort(-scores, kind="stable").tolist()
    ]
    return json_response(ranked, headers=headers)


async def _cohere_rerank(service: Service, request: Request) -> Response:
    """Answer `/v1/rerank`: results with `index` and `relevance_score`, best first."""
    body = await read_object(request, service.limits)
    name = body.get("model")
    model = ranking_model(service)
    if isinstance(name, str) and name in service.models:
        model = service.models[name]
        if not can_rank(model.newest.model):
            raise RequestError(400, f"The model {name} scores no pairs of texts.")
    model = _required(model, "a model that scores pairs of texts")
    query = _query(body)
    documents = body.get("documents")
    if isinstance(documents, list):  # Cohere also takes {"text": ...}
        documents = [d.get("text") if isinstance(d, dict) else d for d in documents]
    texts = texts_from(documents, "documents", service.limits)
    top_n = body.get("top_n")
    if top_n is not None and (type(top_n) is not int or top_n < 1):
        raise RequestError(400, f"`top_n` must be a whole number from 1. Received: {shown(top_n)}.")
    returns_documents = _flag(body, "return_documents", False)
    scores, headers = await _scores(
        service, request, model, {"truncate": True, **body}, query, texts
    )
    order = np.argsort(-scores, kind="stable").tolist()[:top_n]
    results = [
        {"index": index, "relevance_score": float(scores[index])}
        | ({"document": {"text": texts[index]}} if returns_documents else {})
        for index in order
    ]
    return json_response({"model": model.name, "results": results}, headers=headers)


def _query(body: dict[str, Any]) -> str:
    """Return the query of a request.

    Raises:
        RequestError: if it is not a text.
    """
    query = body.get("query")
    if not isinstance(query, str):
        raise RequestError(400, f"`query` must be a text. Received: {shown(query)}.")
    return query
