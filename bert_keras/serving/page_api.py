"""The HTTP interface of the page, under `/api`: answers, tokens, search and attention."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bert_keras import features
from bert_keras.serving.http_json import json_response, read_object
from bert_keras.serving.http_requests import (
    RequestError,
    Service,
    check_amount,
    required,
    run,
    shown,
    texts_from,
    tokens,
    truncated,
    version_of,
)
from bert_keras.serving.json_tensors import characters_of
from bert_keras.serving.loaded_model import (
    LABEL_TASKS,
    MOST_ATTENTION,
    OTHER,
    VECTOR_TASKS,
    LoadedModel,
)
from bert_keras.serving.ranking import can_compare_vectors, ranking_scores
from bert_keras.serving.signatures import Outputs, Signature
from bert_keras.serving.versions import ServedModel, Version

_MOST_LINES = 1000  # maximum number of lines that the page searches


def routes(service: Service) -> list[Route]:
    """Return the routes of the page's interface."""

    async def models(request: Request) -> Response:
        del request
        listed = [_description(model.newest) for model in service.models.values()]
        return json_response({"models": listed})

    async def answer(request: Request) -> Response:
        return await _answer(service, request)

    async def show_tokens(request: Request) -> Response:
        return await _tokens(service, request)

    async def search(request: Request) -> Response:
        return await _search(service, request)

    async def attention(request: Request) -> Response:
        return await _attention(service, request)

    posts = {"answer": answer, "tokens": show_tokens, "search": search, "attention": attention}
    return [
        Route("/api/models", models, methods=["GET"]),
        *(
            Route(f"/api/models/{{name}}/{name}", handler, methods=["POST"])
            for name, handler in posts.items()
        ),
    ]


def _description(version: Version) -> dict[str, Any]:
    """Return the description of a model for the page."""
    model = version.model
    return {
        "name": version.name,
        "task": model.task,
        "inputs": model.inputs,
        "takes_pairs": model.takes_pairs,
        "kind": model.format if model.format in ("checkpoint", "saved_model") else "runtime",
        "format": model.format,
        "version": str(version.number),
        "labels": model.labels,
        "max_length": model.max_length,
        "mask_token": model.mask_token,
        "similarity": model.similarity,
        "backend": model.backend,
        "dtype": model.dtype,
        "can": {
            "answer": model.task != OTHER,
            "tokens": model.tokenizer is not None,
            "attention": "attention" in model.more,
            "similarity": model.task in VECTOR_TASKS and model.similarity_signature is not None,
            "search": can_compare_vectors(model),
        },
        "why_not": model.why_not,
    }


# === Answers ===


async def _answer(service: Service, request: Request) -> Response:
    """Answer one example, with the time of the model in milliseconds."""
    model = service.model(request.path_params["name"])
    body = await read_object(request, service.limits)
    loaded = model.newest.model
    if loaded.task == OTHER:
        raise RequestError(404, loaded.why_not["answer"])
    inputs = _inputs(body.get("inputs"), loaded, service)
    top_k = body.get("top_k")
    if top_k is not None and (type(top_k) is not int or top_k < 1):
        raise RequestError(400, f"`top_k` must be a whole number from 1. Received: {shown(top_k)}.")
    columns = {name: [value] for name, value in inputs.items()}
    answered = await run(
        request,
        service,
        lambda: version_of(model),
        lambda version: _signature_for(version, tuple(inputs)),
        columns,
        1,
    )
    loaded = answered.version.model  # perhaps newer than the version above
    texts = columns.get("text", ())
    is_truncated = bool(await truncated(loaded, texts, columns.get("pair")))
    return json_response(
        {
            "answer": _shown_answer(loaded, answered.outputs, top_k),
            "truncated": is_truncated,
            "words": await _word_counts(loaded, inputs),
            "milliseconds": round(1000 * answered.seconds, 2),
            "version": str(answered.version.number),
        }
    )


async def _word_counts(model: LoadedModel, inputs: Mapping[str, Any]) -> dict[str, int]:
    """Return how many tokens the inputs have, and how many of them the vocabulary lacks.

    Special tokens and options are not counted, and of a long text only the beginning.

    Returns:
        "tokens" -> number of tokens, and "unknown" -> number of unknown tokens.
    """
    counts = {"tokens": 0, "unknown": 0}
    texts = [text for text in inputs.values() if isinstance(text, str)]
    if model.tokenizer is not None:
        for text in texts:
            listed, _ = await tokens(model, text, None)
            counts["tokens"] += sum(not token.special for token in listed)
            counts["unknown"] += sum(token.id == model.tokenizer.unk_id for token in listed)
    return counts


def _inputs(value: Any, model: LoadedModel, service: Service) -> dict[str, Any]:
    """Return the inputs of one example, input name -> text or, for "options", list of texts.

    Raises:
        RequestError: if the model has no signature with these inputs, or a value is wrong.
    """
    if not isinstance(value, dict):
        raise RequestError(400, f"`inputs` must be an object. Received: {shown(value)}.")
    for name, item in value.items():
        if name == "options":
            options = texts_from(item, "inputs.options", service.limits)
            if isinstance(item, str) or len(options) < 2:
                raise RequestError(400, "`inputs.options` must have at least two texts.")
        elif not isinstance(item, str):
            raise RequestError(400, f"`inputs.{name}` must be a text. Received: {shown(item)}.")
    check_amount(1, characters_of(list(value.values())), service.limits)
    if model.of_inputs(*value) is None:
        raise RequestError(
            400,
            f"`inputs` must have {', '.join(model.inputs)}. Received: "
            f"{', '.join(value) or 'none'}.",
        )
    return value


def _signature_for(model: LoadedModel, names: tuple[str, ...]) -> Signature:
    """Return the signature that answers inputs with these names on the page."""
    if "ranked_answers" in model.more:
        return model.more["ranked_answers"]
    return required(model.of_inputs(*names))


def _shown_answer(model: LoadedModel, outputs: Outputs, top_k: int | None) -> dict[str, Any]:
    """Return the answer to one example as the page shows it."""
    row = {name: values[0] for name, values in outputs.items()}
    if features.SIMILARITY in row:
        return {"similarity": float(row[features.SIMILARITY])}
    return _SHOWN[model.task](row, top_k)


def _labels(row: Mapping[str, Any], top_k: int | None) -> dict[str, Any]:
    """Return the labels of a classifier with their scores, and the predicted labels."""
    names, scores = list(row["labels"]), np.asarray(row["scores"]).tolist()
    chosen = names[: int(row["count"])] if "count" in row else names[:1]
    labels = [{"label": name, "score": score} for name, score in zip(names, scores, strict=True)]
    return {"labels": labels[:top_k], "chosen": chosen}


def _numbers(row: Mapping[str, Any], top_k: int | None) -> dict[str, Any]:
    """Return the outputs of a regression model."""
    del top_k
    return {"scores": np.asarray(row["scores"]).tolist()}


def _entities(row: Mapping[str, Any], top_k: int | None) -> dict[str, Any]:
    """Return the entities of a text."""
    del top_k
    names = ("label", "text", "start", "end", "score")
    columns = [np.asarray(row[name]).tolist()[: int(row["count"])] for name in names]
    return {"entities": [dict(zip(names, e, strict=True)) for e in zip(*columns, strict=True)]}


def _answers(row: Mapping[str, Any], top_k: int | None) -> dict[str, Any]:
    """Return the answers to a question, best first. A SavedModel returns only the best one."""
    if "answers" in row:
        ranked = row["answers"][: top_k or 5]
    else:
        names = ("start", "end", "score", "null_score")
        ranked = [{"text": row["answer"], **{name: row[name].item() for name in names}}]
    for answer in ranked:
        # Without a token of the context it is infinite, or the largest float32 in a SavedModel.
        is_finite = math.isfinite(answer["null_score"]) and answer["null_score"] < 1e38
        answer["null_score"] = answer["null_score"] if is_finite else None
    return {"answers": ranked}


def _choice(row: Mapping[str, Any], top_k: int | None) -> dict[str, Any]:
    """Return the best option, and the scores of all options."""
    del top_k
    scores = np.asarray(row["scores"]).tolist()
    return {"index": int(row["index"]), "text": row["choice"], "scores": scores}


def _masks(row: Mapping[str, Any], top_k: int | None) -> dict[str, Any]:
    """Return the best tokens for each mask of a text, best first."""
    names = {"token": "tokens", "token_id": "token_ids", "score": "scores"}
    columns = [np.asarray(row[name]).tolist()[: int(row["mask_count"])] for name in names.values()]
    return {
        "masks": [
            [dict(zip(names, fill, strict=True)) for fill in zip(*mask, strict=True)][:top_k]
            for mask in zip(*columns, strict=True)
        ]
    }


def _vector(row: Mapping[str, Any], top_k: int | None) -> dict[str, Any]:
    """Return the vector of a text."""
    del top_k
    return {"vector": np.asarray(row["sentence_vector"], np.float32)}


# Task name -> function from a row of outputs and `top_k` to the answer that the page shows.
_SHOWN: dict[str, Callable[[Mapping[str, Any], int | None], dict[str, Any]]] = {
    **dict.fromkeys(LABEL_TASKS, _labels),
    **dict.fromkeys(VECTOR_TASKS, _vector),
    **dict.fromkeys(("text_regression", "text_ranking"), _numbers),
    "token_classification": _entities,
    "question_answering": _answers,
    "multiple_choice": _choice,
    "fill_mask": _masks,
    "pretraining": _masks,
}


# === Tokens, attention, search ===


async def _text_and_pair(service: Service, request: Request) -> tuple[ServedModel, str, str | None]:
    """Return the model of the path, and `text` and `pair` of the body.

    Raises:
        RequestError: if there is no such model, or `text` or `pair` is not a text.
    """
    model = service.model(request.path_params["name"])
    body = await read_object(request, service.limits)
    text, pair = body.get("text"), body.get("pair")
    if not isinstance(text, str) or not isinstance(pair, str | None):
        wrong, name = (pair, "pair") if isinstance(text, str) else (text, "text")
        raise RequestError(400, f"`{name}` must be a text. Received: {shown(wrong)}.")
    check_amount(1, len(text) + len(pair or ""), service.limits)
    return model, text, pair


async def _tokens(service: Service, request: Request) -> Response:
    """Answer with the tokens that the model reads of a text or pair."""
    model, text, pair = await _text_and_pair(service, request)
    loaded = model.newest.model
    if loaded.tokenizer is None:
        raise RequestError(404, loaded.why_not["tokens"])
    listed, is_truncated = await tokens(loaded, text, pair)
    return json_response({"tokens": [asdict(token) for token in listed], "truncated": is_truncated})


async def _attention(service: Service, request: Request) -> Response:
    """Answer with the attention weights of all heads, as base64 of uint8.

    The array is [layers, heads, from, to], with 255 for the weight 1.
    """
    model, text, pair = await _text_and_pair(service, request)
    loaded = model.newest.model
    if "attention" not in loaded.more:
        raise RequestError(404, loaded.why_not["attention"])
    columns = {"text": [text]} if pair is None else {"text": [text], "pair": [pair]}
    answered = await run(
        request,
        service,
        lambda: version_of(model),
        _attention_signature,
        columns,
        1,
    )
    weights = answered.outputs["attention"]
    listed, _ = await tokens(answered.version.model, text, pair, max_length=MOST_ATTENTION)
    return json_response(
        {
            "tokens": [token.token for token in listed],
            "layers": weights.shape[0],
            "heads": weights.shape[1],
            "attention": base64.b64encode(weights.tobytes()).decode(),
        }
    )


def _attention_signature(model: LoadedModel) -> Signature:
    """Return the signature of the attention; raise `RequestError` if the model has none."""
    if "attention" not in model.more:
        raise RequestError(404, model.why_not["attention"])
    return model.more["attention"]


async def _search(service: Service, request: Request) -> Response:
    """Answer with all lines, ranked by their similarity to a query."""
    model = service.model(request.path_params["name"])
    body = await read_object(request, service.limits)
    query, lines = body.get("query"), body.get("lines")
    if not isinstance(query, str):
        raise RequestError(400, f"`query` must be a text. Received: {shown(query)}.")
    texts = texts_from(lines, "lines", service.limits)
    if len(texts) > _MOST_LINES:
        raise RequestError(
            413, f"The page searches {_MOST_LINES:,} lines. Received: {len(texts):,}."
        )
    loaded = model.newest.model
    if not can_compare_vectors(loaded):
        raise RequestError(404, f"A model for {loaded.task} gives no vectors to search with.")
    scores, answered = await ranking_scores(request, service, model, query, texts)
    order = np.argsort(-scores, kind="stable").tolist()
    return json_response(
        {
            "results": [{"index": index, "score": float(scores[index])} for index in order],
            "truncated": bool(await truncated(answered.version.model, [query, *texts])),
            "milliseconds": round(1000 * answered.seconds, 2),
        }
    )
