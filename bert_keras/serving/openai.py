"""OpenAI's protocol for embeddings: `/v1/embeddings` and `/v1/models`.

Source: https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bert_keras.retrieval.quantization import unit_length
from bert_keras.serving.http_json import json_response, read_object
from bert_keras.serving.http_requests import (
    Answered,
    RequestError,
    Service,
    check_amount,
    count_tokens,
    run,
    run_vectors,
    shown,
    texts_from,
    version_of,
)
from bert_keras.serving.loaded_model import LoadedModel
from bert_keras.serving.signatures import Signature
from bert_keras.serving.tensorflow_serving import model_status
from bert_keras.serving.versions import ServedModel

_IDS_ADVICE = (
    "Token ids of OpenAI's tokenizer would be read as other words. Send texts: with the OpenAI "
    "client pass str, with LangChain's OpenAIEmbeddings set check_embedding_ctx_length=False. If "
    "the ids are of this model's own tokenizer, start the server with --token-ids."
)


def routes(service: Service) -> list[Route]:
    """Return the routes of the protocol.

    The answer at `/v1/models/NAME` also has the status of TensorFlow Serving, whose path it is too.
    """

    async def embeddings(request: Request) -> Response:
        return await _embeddings(service, request)

    async def models(request: Request) -> Response:
        del request
        listed = [_model_object(model) for model in service.models.values()]
        return json_response({"object": "list", "data": listed})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        if ":" in name:  # a method of TensorFlow Serving, such as NAME:predict
            raise RequestError(405, "This path takes POST only. /docs lists the methods.")
        status = model_status(service, name)
        return json_response({**_model_object(service.model(name)), "model_version_status": status})

    return [
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/models", models, methods=["GET"]),
        Route("/v1/models/{name}", model, methods=["GET"]),
    ]


def _model_object(model: ServedModel) -> dict[str, Any]:
    """Return the object that describes a model in OpenAI's protocol."""
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "bert_keras",
    }


async def _embeddings(service: Service, request: Request) -> Response:
    """Answer `/v1/embeddings`: a vector for each row of `input`, and the number of tokens."""
    body = await read_object(request, service.limits)
    name = body.get("model")
    if not isinstance(name, str):
        raise RequestError(400, f"`model` must be the name of a model. Received: {shown(name)}.")
    model = service.model(name)
    loaded = model.newest.model
    if loaded.vector_signature is None:
        names = [n for n, other in service.models.items() if other.newest.model.has_vectors]
        raise RequestError(
            400,
            f"The model {name} is for {loaded.task} and gives no vectors. Models with vectors: "
            f"{', '.join(names) or 'none'}.",
        )
    encoding = body.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise RequestError(
            400, f"`encoding_format` must be float or base64. Received: {shown(encoding)}."
        )
    answered, counts = await _run_input(service, request, model, body.get("input"))
    vectors = _shortened(
        np.asarray(answered.outputs["sentence_vector"], np.float32), body.get("dimensions")
    )
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _base64(vector) if encoding == "base64" else vector,
        }
        for index, vector in enumerate(vectors)
    ]
    total, limit = sum(counts), answered.version.model.max_length
    num_truncated = sum(count > limit for count in counts) if limit is not None else 0
    usage = {"prompt_tokens": total, "total_tokens": total}
    return json_response(
        {
            "object": "list",
            "data": data,
            "model": name,
            "usage": usage,
            "truncated": num_truncated,
        },
        headers={
            "X-Model-Version": str(answered.version.number),
            "X-Truncated-Texts": str(num_truncated),
        },
    )


async def _run_input(
    service: Service, request: Request, model: ServedModel, value: Any
) -> tuple[Answered, list[int]]:
    """Return the vectors of `input`, and the number of tokens of each row.

    Raises:
        RequestError: if `input` is neither a text, a list of texts, nor token ids; or if it is
            token ids and the server runs without --token-ids.
    """
    rows = _rows_of_ids(value)
    if rows is None:
        texts = texts_from(value, "input", service.limits)
        answered = await run_vectors(request, service, model, texts)
        return answered, await count_tokens(answered.version.model, texts)
    if not service.accepts_token_ids:
        raise RequestError(400, f"`input` has token ids. {_IDS_ADVICE}")
    if model.newest.model.prompt:
        raise RequestError(
            400,
            f"The model {model.name} puts the prompt {model.newest.model.prompt!r:.80} before each "
            "text, which token ids would not have. Send texts.",
        )
    check_amount(len(rows), sum(map(len, rows)), service.limits)
    _check_ids(rows, model.newest.model)
    columns = {"token_ids": rows}
    answered = await run(
        request, service, lambda: version_of(model), _id_signature, columns, len(rows)
    )
    tokenizer = answered.version.model.tokenizer
    num_special = 0 if tokenizer is None else tokenizer.scheme.num_added(1)
    return answered, [len(row) + num_special for row in rows]


def _id_signature(model: LoadedModel) -> Signature:
    """Return the signature that takes token ids and returns vectors.

    Raises:
        RequestError: if the model has none.
    """
    if "vectors_of_ids" not in model.more:
        raise RequestError(
            400, f"A model in the format {model.format} takes no token ids here. Send texts."
        )
    return model.more["vectors_of_ids"]


def _rows_of_ids(value: Any) -> list[list[int]] | None:
    """Return `input` as rows of token ids; None if it is no list of ids or of lists of ids."""
    rows = value if isinstance(value, list) else []
    rows = [rows] if rows and all(type(item) is int for item in rows) else rows
    is_ids = bool(rows) and all(
        isinstance(row, list) and row and all(type(item) is int for item in row) for row in rows
    )
    return rows if is_ids else None


def _check_ids(rows: list[list[int]], model: LoadedModel) -> None:
    """Check that token ids are in the vocabulary of a model.

    Raises:
        RequestError: if one is not.
    """
    size = model.tokenizer.vocab_size if model.tokenizer is not None else 0
    for index, row in enumerate(rows):
        if wrong := [item for item in row if not 0 <= item < size]:
            raise RequestError(
                400,
                f"`input[{index}]` has the token id {wrong[0]}, but the vocabulary has {size:,} "
                "entries.",
            )


def _shortened(vectors: np.ndarray, dimensions: Any) -> np.ndarray:
    """Return the first `dimensions` numbers of each vector, scaled to the length 1.

    OpenAI's own models do the same. Other models need a training for it, such as Matryoshka
    representation learning.

    Raises:
        RequestError: if `dimensions` is not a number from 1 to the size of the vectors.
    """
    if dimensions is None:
        return vectors
    size = vectors.shape[1]
    if type(dimensions) is not int or not 1 <= dimensions <= size:
        raise RequestError(
            400, f"`dimensions` must be from 1 to {size}. Received: {shown(dimensions)}."
        )
    if dimensions == size:
        return vectors
    return unit_length(np.ascontiguousarray(vectors[:, :dimensions]))


def _base64(vector: np.ndarray) -> str:
    """Return a vector as base64 of its float32 numbers in little-endian order."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
