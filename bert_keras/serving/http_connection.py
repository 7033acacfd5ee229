"""HTTP connections: uvicorn's protocol, with limits for the headers and for slow clients."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEADERS = 64 * 1024  # bytes; the parser itself takes any number
_HEADERS_TIMEOUT = 20.0  # seconds until the headers of a request have arrived


class HttpConnection(HttpToolsProtocol):
    """A connection that is closed if headers are too large or too slow, or answers are not read.

    uvicorn's connection has no limit for headers, and no time-out before they are complete. So a
    client could fill the memory, or hold connections open for ever.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._headers_size = 0  # bytes of headers that are not complete
        self._is_new_request = False  # True until the data with the start of a request is read
        self._headers_timer: TimerHandle | None = None
        self._unsent = 0  # bytes that waited for the client at the last look

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Start the time-out of the first request."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time-out."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data, and refuse headers that are too large."""
        super().data_received(data)
        cycle: Any = self.cycle  # None before the first request
        if self._headers_timer is None and (cycle is None or cycle.response_complete):
            self._start_timer()  # data that belongs to no request
        if self._is_new_request:  # it is not known where in the data the request starts
            self._is_new_request = False
        elif self._headers_timer is not None:
            self._headers_size += len(data)
            if self._headers_size > _MOST_HEADERS and not self.transport.is_closing():
                self.send_400_response("The headers are too large.")

    def on_message_begin(self) -> None:
        """Start the time-out of the headers of a request."""
        super().on_message_begin()
        self._headers_size, self._is_new_request = 0, True
        self._start_timer()

    def on_headers_complete(self) -> None:
        """Stop the time-out."""
        self._stop_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is no HTTP, and close the connection."""
        self._stop_timer()
        body = orjson.dumps({"error": msg})
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also if its client has stopped reading the answer."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent:
            super().timeout_keep_alive_handler()
        elif self._unsent and unsent >= self._unsent:
            self.transport.abort()
        else:
            self._unsent = unsent
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _start_timer(self) -> None:
        """Close the connection if the headers of a request are not complete in time."""
        self._stop_timer()
        self._headers_timer = self.loop.call_later(_HEADERS_TIMEOUT, self.transport.close)

    def _stop_timer(self) -> None:
        """Stop the time-out of the headers."""
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None
