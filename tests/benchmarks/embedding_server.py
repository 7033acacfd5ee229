"""A server of `/v1/embeddings` without a model, for tests: the vector is the text's length.

    python tests/benchmarks/embedding_server.py [STATUS …]

It answers with the statuses in turn, 200 by default.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATUSES = itertools.cycle([int(word) for word in sys.argv[1:]] or [200])


class Handler(BaseHTTPRequestHandler):
    """Answers of a connection, which is kept open."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request. The answer comes in two parts."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = json.dumps({"data": [{"embedding": [len(body["input"])]}]}).encode()
        self.send_response(next(STATUSES))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Model-Version", "7")
        self.end_headers()
        self.wfile.write(content[:5])
        self.wfile.flush()
        self.wfile.write(content[5:])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
