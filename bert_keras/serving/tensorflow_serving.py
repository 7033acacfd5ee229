"""TensorFlow Serving's REST protocol: predict, classify, regress, status and metadata.

Source: https://www.tensorflow.org/tfx/serving/api_rest
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bert_keras import features
from bert_keras.serving.http_json import json_response, read_object
from bert_keras.serving.http_requests import (
    Answered,
    Limits,
    RequestError,
    Service,
    check_amount,
    run,
    shown,
    truncated,
    version_of,
)
from bert_keras.serving.json_tensors import (
    characters_of,
    columns_of_inputs,
    columns_of_rows,
    json_values,
    string_value,
)
from bert_keras.serving.loaded_model import LABEL_TASKS, LoadedModel
from bert_keras.serving.signatures import (
    CLASSIFY,
    DEFAULT,
    FLOAT,
    REGRESS,
    STRING,
    Signature,
    Spec,
)
from bert_keras.serving.version_folders import MOST_DIGITS
from bert_keras.serving.versions import AVAILABLE, FAILED, Version

_DTYPES = {
    STRING: "DT_STRING",
    FLOAT: "DT_FLOAT",
    "float64": "DT_DOUBLE",
    "float16": "DT_HALF",
    "int32": "DT_INT32",
    "int64": "DT_INT64",
    "bool": "DT_BOOL",
    "uint8": "DT_UINT8",
    "bfloat16": "DT_BFLOAT16",
}
_OK = "OK"


def routes(service: Service) -> list[Route]:
    """Return the routes of the protocol."""

    async def run_method(request: Request) -> Response:
        verb = request.path_params["verb"]
        handler = {"predict": _predict, "classify": _classify, "regress": _regress}.get(verb)
        if handler is None:
            raise RequestError(
                400,
                "Malformed request: the method must be predict, classify or regress. "
                f"Received: {verb:.80}",
            )
        return await handler(service, request)

    async def metadata(request: Request) -> Response:
        return json_response(_metadata(_version(service, request)))

    async def status(request: Request) -> Response:
        return json_response(_status(service, request))

    listed = [
        Route("/v1/models/{name}/metadata", metadata, methods=["GET"]),
        Route("/v1/models/{name}:{verb}", run_method, methods=["POST"]),
    ]
    for part in ("versions/{number}", "labels/{label}"):
        path = "/v1/models/{name}/" + part
        listed += [
            Route(f"{path}/metadata", metadata, methods=["GET"]),
            Route(path + ":{verb}", run_method, methods=["POST"]),
            Route(path, status, methods=["GET"]),
        ]
    return listed


def _version(service: Service, request: Request) -> Version:
    """Return the version that the path of a request names; the newest if it names none."""
    path = request.path_params
    return version_of(service.model(path["name"]), _number(path), path.get("label"))


def _number(path: Mapping[str, str]) -> int | None:
    """Return the version number of a path, or raise `RequestError`; None if it has none."""
    text = path.get("number")
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > MOST_DIGITS:
        raise RequestError(404, f"{text!r:.80} is not the number of a version.")
    return int(text)


# === Predict ===


async def _predict(service: Service, request: Request) -> Response:
    """Answer `:predict`: `predictions` for rows (`instances`), `outputs` for columns (`inputs`)."""
    body = await read_object(request, service.limits)
    signature_name = body.get("signature_name") or DEFAULT
    in_rows = "instances" in body
    if in_rows == ("inputs" in body):
        raise RequestError(
            400, 'The body must have "instances" (rows) or "inputs" (columns), and not both.'
        )
    model = _version(service, request).model
    signature = _signature(model, signature_name)
    columns, count = (
        columns_of_rows(body["instances"], signature)
        if in_rows
        else columns_of_inputs(body["inputs"], signature)
    )
    check_amount(count, characters_of(list(columns.values())), service.limits)
    if features.SEQUENCE_OUTPUT in signature.outputs and signature.has_text_rows:
        _check_token_vectors(model, columns["text"], service.limits)
    answered = await run(
        request,
        service,
        lambda: _version(service, request),
        lambda loaded: _signature(loaded, signature_name),
        columns,
        count,
    )
    outputs = {name: json_values(name, values) for name, values in answered.outputs.items()}
    headers = await _headers(answered, columns)
    # The value of a single output has no name, as in TensorFlow Serving.
    only = next(iter(outputs.values())) if len(outputs) == 1 else None
    if not in_rows:
        return json_response({"outputs": outputs if only is None else only}, headers=headers)
    sizes = {np.shape(values)[:1] for values in answered.outputs.values()}
    if sizes != {(count,)}:
        raise RequestError(
            400,
            "The outputs of this signature are not in rows, one for each instance. Send the "
            'request in columns ("inputs").',
        )
    if only is None:
        names = list(outputs)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
    else:
        rows = only
    return json_response({"predictions": rows}, headers=headers)


def _check_token_vectors(model: LoadedModel, texts: Sequence[str], limits: Limits) -> None:
    """Check that the vectors of all tokens of the texts are not too many for one answer.

    The texts are not tokenised: a text of n bytes has at most n tokens and 2 special tokens.

    Raises:
        RequestError: if they may be too many.
    """
    longest = model.max_length or sys.maxsize
    tokens = sum(
        min(len(text if isinstance(text, bytes) else text.encode()) + 2, longest) for text in texts
    )
    if tokens > limits.max_token_vectors:
        raise RequestError(
            413,
            f"An answer may have the vectors of {limits.max_token_vectors:,} tokens. The texts may "
            f"have {tokens:,}. Send fewer texts, or ask /v1/embeddings for one vector of each.",
        )


async def _headers(answered: Answered, columns: Mapping[str, Any]) -> dict[str, str]:
    """Return headers with the version that answered and, for str, the number of truncated texts."""
    headers = {"X-Model-Version": str(answered.version.number)}
    texts, pairs = columns.get("text"), columns.get("pair")
    if (
        isinstance(texts, list)
        and isinstance(pairs, list | None)
        and all(isinstance(text, str) for text in [*texts, *(pairs or ())])
    ):
        count = await truncated(answered.version.model, texts, pairs)
        headers["X-Truncated-Texts"] = str(count)
    return headers


def _signature(model: LoadedModel, name: Any) -> Signature:
    """Return the signature of a model with this name.

    Raises:
        RequestError: if there is none.
    """
    if not isinstance(name, str) or name not in model.signatures:
        raise RequestError(
            400,
            f'The model has no signature {shown(name)} ("signature_name"). Signatures: '
            f"{', '.join(model.signatures)}.",
        )
    return model.signatures[name]


# === Classify and regress ===


async def _classify(service: Service, request: Request) -> Response:
    """Answer `:classify`: a list of [label, score] for each example."""
    answered, is_own, headers = await _run_examples(service, request, CLASSIFY, LABEL_TASKS)
    scores = _output(answered, "scores").tolist()
    labels = answered.outputs.get("labels" if is_own else "classes")
    # As in TensorFlow Serving, the label of a signature without labels is "".
    labels = [[""] * len(row) for row in scores] if labels is None else json_values("", labels)
    result = [
        [list(pair) for pair in zip(*row, strict=True)] for row in zip(labels, scores, strict=True)
    ]
    return json_response({"result": result}, headers=headers)


async def _regress(service: Service, request: Request) -> Response:
    """Answer `:regress`: a number for each example."""
    tasks = ("text_regression", "text_ranking")
    answered, is_own, headers = await _run_examples(service, request, REGRESS, tasks)
    numbers = _output(answered, "scores" if is_own else "outputs")
    result = np.reshape(numbers, (len(numbers), -1))[:, 0].tolist()
    return json_response({"result": result}, headers=headers)


def _output(answered: Answered, name: str) -> np.ndarray:
    """Return an output; raise `RequestError` if the program of others does not have it."""
    if name not in answered.outputs:
        raise RequestError(400, f"The signature has no output {name!r}. Use predict.")
    return answered.outputs[name]


async def _run_examples(
    service: Service, request: Request, method: str, tasks: tuple[str, ...]
) -> tuple[Answered, bool, dict[str, str]]:
    """Run the `examples` of a body.

    A signature of the method classify or regress takes serialised tf.Example messages. Exports of
    this package have no such signature. If their task is one of `tasks`, the signature that takes
    texts answers instead.

    Returns:
        The outputs, True if a model of this package answered, and the headers of the answer.

    Raises:
        RequestError: if the model has no such signature, or the examples do not fit it.
    """
    body = await read_object(request, service.limits)
    examples, context = body.get("examples"), body.get("context", {})
    if not isinstance(examples, list) or not examples or not isinstance(context, dict):
        raise RequestError(
            400, f'"examples" must be a list of at least one object. Received: {shown(examples)}.'
        )
    rows = [
        {**context, **example} if isinstance(example, dict) else example for example in examples
    ]
    model = _version(service, request).model
    name = body.get("signature_name") or DEFAULT
    signature = _signature(model, name)
    is_own = model.task in tasks and signature.has_text_rows
    if is_own:
        columns, count = columns_of_rows(rows, signature, "examples")
    elif signature.method == method and len(signature.inputs) == 1:
        messages = [_example(row, index) for index, row in enumerate(rows)]
        columns, count = {next(iter(signature.inputs)): messages}, len(rows)
    else:
        verb = method.rpartition("/")[2]
        raise RequestError(
            400,
            f"The signature {name!r} has no {verb}: the model is for {model.task}. Use predict.",
        )
    check_amount(count, characters_of(list(columns.values())), service.limits)
    answered = await run(
        request,
        service,
        lambda: _version(service, request),
        lambda loaded: _signature(loaded, name),
        columns,
        count,
    )
    return answered, is_own, await _headers(answered, columns)


def _example(row: Any, index: int) -> bytes:
    """Return an object of `examples` as a serialised tf.Example message.

    Raises:
        RequestError: if it is no object, or a value is not of one type.
    """
    import tensorflow as tf

    if not isinstance(row, dict):
        raise RequestError(400, f"examples[{index}] must be an object. Received: {shown(row)}.")
    example = tf.train.Example()
    for name, value in row.items():
        values = value if isinstance(value, list) else [value]
        feature = example.features.feature[name]
        if all(isinstance(item, bool | int) for item in values):
            if not all(-(2**63) <= item < 2**63 for item in values):
                raise RequestError(400, f"examples[{index}].{name:.80} does not fit into 64 bits.")
            feature.int64_list.value.extend(map(int, values))
        elif all(isinstance(item, int | float) for item in values):
            feature.float_list.value.extend(values)
        else:
            place = f"examples[{index}].{name}"
            texts = [string_value(item, 0, place) for item in values]
            feature.bytes_list.value.extend(
                text.encode() if isinstance(text, str) else text for text in texts
            )
    return example.SerializeToString()


# === Status and metadata ===


def model_status(
    service: Service, name: str, number: int | None = None, label: str | None = None
) -> list[dict[str, Any]]:
    """Return `model_version_status` of a model, or of one of its versions.

    Raises:
        RequestError: if there is no such model, version or label.
    """
    model = service.model(name)
    if label is not None:
        number = version_of(model, label=label).number
    states = [state for state in model.states() if number in (None, state[0])]
    if not states:
        version_of(model, number)  # raises the error
    return [
        {
            "version": str(version),
            "state": state,
            "status": {
                "error_code": "UNKNOWN" if state == FAILED else _OK,
                "error_message": message,
            },
        }
        for version, state, message in states
    ]


def is_available(service: Service) -> bool:
    """Return whether every model has a version that is loaded."""
    return all(
        any(state == AVAILABLE for _, state, _ in model.states())
        for model in service.models.values()
    )


def _status(service: Service, request: Request) -> dict[str, Any]:
    """Return the status object of the model or version that the path names."""
    path = request.path_params
    statuses = model_status(service, path["name"], _number(path), path.get("label"))
    return {"model_version_status": statuses}


def _metadata(version: Version) -> dict[str, Any]:
    """Return the metadata object of a version."""
    signatures = {
        name: {
            "inputs": {key: _tensor_info(key, spec) for key, spec in signature.inputs.items()},
            "outputs": {key: _tensor_info(key, spec) for key, spec in signature.outputs.items()},
            "method_name": signature.method,
            "defaults": {},
        }
        for name, signature in version.model.signatures.items()
    }
    return {
        "model_spec": {
            "name": version.name,
            "signature_name": "",
            "version": str(version.number),
        },
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def _tensor_info(name: str, spec: Spec) -> dict[str, Any]:
    """Return the TensorInfo object of an input or output."""
    sizes = [{"size": str(-1 if size is None else size), "name": ""} for size in spec.shape or ()]
    return {
        "dtype": _DTYPES.get(spec.dtype, "DT_INVALID"),
        "tensor_shape": {"dim": sizes, "unknown_rank": spec.shape is None},
        "name": f"{name}:0",
    }
