"""HTTP connections of uvicorn, with limits for headers and for slow clients."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEADERS = 64 * 1024  # maximum number of bytes of headers; the parser has no limit
_HEADERS_TIMEOUT = 20.0  # maximum time in seconds until the headers of a request are complete


class HttpConnection(HttpToolsProtocol):
    """An HTTP connection with limits.

    It is closed if the headers of a request are too large or too slow, or if the client does not
    read the answer. uvicorn's own connection has no such limits, so a client could fill the memory
    or hold connections open for ever.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._headers_size = 0  # bytes of headers that have arrived; they are not complete
        self._is_new_request = False  # True if a request starts in the data that is being parsed
        self._headers_timer: TimerHandle | None = None
        # Bytes of the answer that the client had not read at the last time-out; 0 before the first.
        self._unsent = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Start the time-out of the first request."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time-out of the headers."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data, and refuse headers that are too large."""
        super().data_received(data)
        cycle: Any = self.cycle  # None before the first request
        if self._headers_timer is None and (cycle is None or cycle.response_complete):
            self._start_timer()  # data such as a line end, with which no request starts
        if self._is_new_request:
            # These bytes are not counted, because a part of them may belong to an earlier request.
            self._is_new_request = False
        elif self._headers_timer is not None:
            self._headers_size += len(data)
            if self._headers_size > _MOST_HEADERS and not self.transport.is_closing():
                self.send_400_response("The headers are too large.")

    def on_message_begin(self) -> None:
        """Start the time-out of the headers of a request."""
        super().on_message_begin()
        self._headers_size, self._is_new_request = 0, True
        self._unsent = 0
        self._start_timer()

    def on_headers_complete(self) -> None:
        """Stop the time-out of the headers."""
        self._stop_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not valid HTTP with status 400, and close the connection."""
        self._stop_timer()
        body = orjson.dumps({"error": msg})
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that is idle, or whose client reads nothing between two time-outs."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent:
            super().timeout_keep_alive_handler()
        elif self._unsent and unsent >= self._unsent:  # the client has stopped reading
            self.transport.abort()
        else:
            self._unsent = unsent
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _start_timer(self) -> None:
        """Start or restart the time-out of the headers, at whose end the connection is closed."""
        self._stop_timer()
        self._headers_timer = self.loop.call_later(_HEADERS_TIMEOUT, self.transport.close)

    def _stop_timer(self) -> None:
        """Stop the time-out of the headers."""
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None
