"""A server on this machine that answers everything alike, in the place of Prefect's and of a webhook."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


@contextmanager
def answering(host: str = "127.0.0.1", status: int = 200, content: bytes = b"") -> Iterator[tuple[int, list[Any]]]:
    """The port of a server that listens at `host`, and what JSON it is sent; it has ended after the block."""
    told: list[Any] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.do_GET()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer((host, 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port, told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
