"""Requests: limits, checks of values, and running of models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from bert_keras.errors import ArtifactError
from bert_keras.serving.batching import ClosedError, QueueFullError
from bert_keras.serving.loaded_model import LoadedModel, Token
from bert_keras.serving.signatures import Columns, Outputs, Signature
from bert_keras.serving.versions import NotFoundError, ServedModel, Version

_RETRIES = 3  # of a request whose version was unloaded between its arrival and its run
_TEXT_INPUTS = ("text", "pair", "question", "context", "prompt", "options")
# A request with more characters is tokenised in another thread, so that others do not wait.
_LONG_TEXT = 50_000


class RequestError(Exception):
    """An error that the server answers with an HTTP status.

    Attributes:
        status: HTTP status.
        message: text for the client.
        retry_after: value of the header Retry-After in seconds; None for no header.
        code: short name of the error for OpenAI's clients.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: int | None = None, code: str = ""
    ):
        super().__init__(message)
        self.status, self.message = status, message
        self.retry_after, self.code = retry_after, code


@dataclass(frozen=True)
class Limits:
    """Limits of requests.

    Attributes:
        max_body: maximum number of bytes of a body.
        max_texts: maximum number of rows of a request.
        max_characters: maximum number of characters of all texts of a request.
        max_window_characters: maximum number of characters of a text for models that read a long
            text in windows, each of which takes the time of a short text.
        max_token_vectors: maximum number of tokens whose vectors an answer may have.
        timeout: maximum time in seconds until a request is answered.
        body_timeout: maximum time in seconds until a body has arrived.
    """

    max_body: int = 8 * 2**20
    max_texts: int = 2048
    max_characters: int = 4 * 2**20
    max_window_characters: int = 100_000
    max_token_vectors: int = 16 * 1024
    timeout: float = 60.0
    body_timeout: float = 20.0


@dataclass
class Service:
    """Models, limits and settings, which all protocols share.

    Attributes:
        models: name -> model, in the order of the command line.
        limits: limits of requests.
        accepts_token_ids: True if `/v1/embeddings` takes ids of the model's own tokenizer.
        is_draining: True while the server stops.
    """

    models: dict[str, ServedModel]
    limits: Limits = field(default_factory=Limits)
    accepts_token_ids: bool = False
    is_draining: bool = False

    def model(self, name: str) -> ServedModel:
        """Return a model.

        Raises:
            RequestError: if there is none of this name.
        """
        if name not in self.models:
            raise RequestError(
                404,
                f"There is no model {name!r:.100}. Models: {', '.join(self.models)}.",
                code="model_not_found",
            )
        return self.models[name]

    def first(self, condition: Callable[[LoadedModel], bool]) -> ServedModel | None:
        """Return the first model whose newest version fulfils a condition, or None."""
        models = self.models.values()
        return next((model for model in models if condition(model.newest.model)), None)


def version_of(model: ServedModel, number: int | None = None, label: str | None = None) -> Version:
    """Return a version of a model; see `ServedModel.version`.

    Raises:
        RequestError: if it is not loaded.
    """
    try:
        return model.version(number, label)
    except NotFoundError as error:
        raise RequestError(404, f"{error}.") from error


# === Values ===


def texts_from(value: Any, name: str, limits: Limits) -> list[str]:
    """Return a text or a list of texts as a list of texts.

    Raises:
        RequestError: if it is something else, empty, or too much.
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise RequestError(
            400, f"`{name}` must be a text, or a list of at least one. Received: {shown(value)}."
        )
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise RequestError(400, f"`{name}[{index}]` must be a text. Received: {shown(text)}.")
    check_amount(len(texts), sum(map(len, texts)), limits)
    return texts


def check_amount(rows: int, characters: int, limits: Limits) -> None:
    """Check the number of rows and characters of a request.

    Raises:
        RequestError: if it is above the limits.
    """
    if rows > limits.max_texts:
        raise RequestError(
            413,
            f"A request may have {limits.max_texts:,} texts. Received: {rows:,}. Send several "
            "requests.",
        )
    if characters > limits.max_characters:
        raise RequestError(
            413,
            f"The texts of a request may have {limits.max_characters:,} characters. Received: "
            f"{characters:,}. Send several requests.",
        )


def shown(value: Any) -> str:
    """Return a value of a request for an error message, shortened."""
    try:
        text = orjson.dumps(value, default=str).decode()
    except orjson.JSONEncodeError:  # orjson reads deeper lists than it writes
        text = f"a deep {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


# === Running ===


@dataclass(frozen=True)
class Answered:
    """The outputs of a request.

    Attributes:
        outputs: output name -> array [batch, ...].
        version: the version that answered.
        seconds: time from the request to its outputs.
    """

    outputs: Outputs
    version: Version
    seconds: float


async def run(
    request: Request,
    service: Service,
    choose: Callable[[], Version],
    signature_of: Callable[[LoadedModel], Signature],
    columns: Columns,
    count: int,
) -> Answered:
    """Run rows through a model and wait for the outputs.

    If the version is unloaded before the rows run, they run on the version that follows it.

    Args:
        request: the request; its rows are dropped if the client closes the connection.
        service: the server's models and limits.
        choose: function that returns the version.
        signature_of: function that returns the signature of a model.
        columns: input name -> values.
        count: number of rows.

    Raises:
        RequestError: if the queue is full, the time limit has passed, or the model refuses a row.
    """
    start = time.perf_counter()
    for _ in range(_RETRIES):
        version = choose()
        columns = await _shortened_columns(version.model, columns, service.limits)
        try:
            job = version.batcher.submit(signature_of(version.model), columns, count)
        except QueueFullError as error:
            raise RequestError(429, str(error), retry_after=error.retry_after) from error
        except ClosedError:
            await asyncio.sleep(0)
            continue
        future = asyncio.wrap_future(job.future)
        outputs = await _wait(future, request, service.limits.timeout)
        return Answered(outputs, version, time.perf_counter() - start)
    raise RequestError(503, "The model is not loaded any more.", retry_after=1)


def required(signature: Signature | None) -> Signature:
    """Return a signature of a model that had it when the request was checked.

    Raises:
        RequestError: if it is None, because another version has replaced the model meanwhile.
    """
    if signature is None:
        raise RequestError(503, "The model has just been replaced by another.", retry_after=1)
    return signature


async def run_vectors(
    request: Request, service: Service, model: ServedModel, texts: list[str]
) -> Answered:
    """Run the signature of a model that gives `sentence_vector`; see `run`."""
    return await run(
        request,
        service,
        lambda: version_of(model),
        lambda loaded: required(loaded.vector_signature),
        {"text": texts},
        len(texts),
    )


async def _shortened_columns(model: LoadedModel, columns: Columns, limits: Limits) -> Columns:
    """Return columns with very long texts shortened, so that reading them takes bounded time.

    Raises:
        RequestError: if a text is too long for a model that reads it in windows.
    """
    rows = [row for name in _TEXT_INPUTS for row in columns.get(name, ())]
    texts = [text for row in rows for text in (row if isinstance(row, list) else [row])]
    longest = max(map(len, texts), default=0)
    if model.reads_windows and longest > limits.max_window_characters:
        raise RequestError(
            413,
            f"A model for {model.task} reads texts of at most {limits.max_window_characters:,} "
            f"characters. Received: {longest:,}. Send the text in parts.",
        )
    if longest < _LONG_TEXT or model.tokenizer is None:
        return columns

    def shortened(value: Any) -> Any:
        """Return a text, or each text of a list, without the end that the model does not read."""
        if isinstance(value, list):
            return [shortened(item) for item in value]
        if isinstance(value, bytes):
            value = value.decode("utf-8", "ignore")
        return model.shortened(value)

    return await asyncio.to_thread(
        lambda: {
            name: shortened(values) if name in _TEXT_INPUTS else values
            for name, values in columns.items()
        }
    )


async def _wait(future: asyncio.Future, request: Request, timeout: float) -> Outputs:
    """Return the outputs of a job; raise an error if the client leaves or the time is over."""
    disconnected = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait(
            {future, disconnected}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if future.done():
            return future.result()
        if disconnected.done():
            raise ClientDisconnect
        raise RequestError(
            503,
            f"The model did not answer within {timeout:g} s. Send fewer or shorter texts.",
            retry_after=max(1, int(timeout)),
        )
    except ArtifactError:
        raise  # its message names files
    except ValueError as error:
        raise RequestError(400, str(error)) from error
    finally:
        future.cancel()
        disconnected.cancel()


async def _disconnected(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def truncated(
    model: LoadedModel, texts: Sequence[str], pairs: Sequence[str] | None = None
) -> int:
    """Return the number of rows that the model truncates; see `LoadedModel.truncated`."""
    if model.tokenizer is None:
        return 0
    return await _in_thread_if_long([*texts, *(pairs or ())], lambda: model.truncated(texts, pairs))


async def count_tokens(model: LoadedModel, texts: Sequence[str]) -> list[int]:
    """Return the number of tokens of each text; of very long ones, those of the beginning.

    See `LoadedModel.count_tokens` and `LoadedModel.shortened`.
    """
    if model.tokenizer is None:
        return [0] * len(texts)
    return await _in_thread_if_long(
        texts, lambda: model.count_tokens([*map(model.shortened, texts)])
    )


async def tokens(
    model: LoadedModel, text: str, pair: str | None, *, max_length: int | None = None
) -> tuple[list[Token], bool]:
    """Return the tokens of a row, and whether it is truncated; see `LoadedModel.tokens`."""
    return await _in_thread_if_long(
        [text, pair or ""], lambda: model.tokens(text, pair, max_length=max_length)
    )


async def _in_thread_if_long(texts: Sequence[str], function: Callable[[], Any]) -> Any:
    """Call a function here if there is little text, else in another thread."""
    if sum(map(len, texts)) < _LONG_TEXT:
        return function()
    return await asyncio.to_thread(function)
