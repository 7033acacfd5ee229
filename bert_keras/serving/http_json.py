"""JSON bodies: requests that are read with limits, and answers."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from bert_keras import file_io
from bert_keras.errors import DataError
from bert_keras.serving.http_requests import Limits, RequestError

# A body that is too large is read up to this many times the largest size, and dropped.
_MOST_DROPPED = 4


async def read_object(request: Request, limits: Limits) -> dict[str, Any]:
    """Return the JSON object of a request's body.

    Raises:
        RequestError: if the body is too large or too slow, or not a JSON object.
    """
    try:
        body = await asyncio.wait_for(_body(request, limits.max_body), limits.body_timeout)
    except TimeoutError:
        raise RequestError(
            408, f"The body did not arrive within {limits.body_timeout:g} s."
        ) from None
    if not body:
        raise RequestError(400, "The body is empty. Send a JSON object.")
    value = _parsed(body)
    if not isinstance(value, dict):
        raise RequestError(
            400, f"The body must be a JSON object. Received: {type(value).__name__}."
        )
    return value


async def _body(request: Request, most: int) -> bytes:
    """Return the body of a request of at most `most` bytes.

    A larger body is read too, up to `_MOST_DROPPED` times that size, and dropped. Clients such as
    urllib send all of it before they read the answer, and would see a broken connection instead.
    """
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > _MOST_DROPPED * most:
        raise RequestError(413, _too_large(most))
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            parts.clear()
        if size > _MOST_DROPPED * most:
            break
        parts.append(part)
    if size > most:
        raise RequestError(413, _too_large(most))
    return b"".join(parts)


def _too_large(most: int) -> str:
    """Return the message about a body that is too large."""
    return f"The body has more than {most:,} bytes. Send fewer texts in one request."


def _parsed(body: bytes) -> Any:
    """Return the value of a JSON text, which may have NaN and Infinity, as in TensorFlow Serving.

    Raises:
        RequestError: if it is not JSON, or an object has a key twice.
    """
    reason = ""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        reason = str(error)
    if reason and b"NaN" not in body and b"Infinity" not in body:
        raise RequestError(400, f"The body is not JSON: {reason}.")
    try:
        # Of two equal keys, orjson takes the last. A proxy may take the first.
        value = file_io.decode_json(body, "The body", DataError)
        if reason:
            orjson.dumps(value)  # all else that orjson refuses, such as half of a surrogate pair
    except DataError as error:
        raise RequestError(400, str(error)) from None
    except TypeError:
        raise RequestError(400, f"The body is not JSON: {reason}.") from None
    return value


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a response with a JSON body.

    Args:
        value: JSON values and NumPy arrays of numbers, which become lists. NaN and infinite numbers
            become null, because most JSON readers refuse them.
        status: HTTP status.
        headers: further headers.
    """
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, headers, media_type="application/json")
