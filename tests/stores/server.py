"""A store of objects on this machine, with a log of what it was asked: `python -m tests.stores.server s3 LOG`.

It prints its port, and ends when its input does, so that it does not outlive who started it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO
from urllib.parse import unquote


def main(kind: str, log_path: str) -> None:
    with open(log_path, "w", buffering=1) as log:
        server = {"s3": _s3, "gs": _gs}[kind](log)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_port, flush=True)
        sys.stdin.read()


def _s3(log: TextIO) -> Any:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None:
            pass

    app = DomainDispatcherApplication(create_backend_app)

    def logged(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        log.write(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {environ.get('HTTP_RANGE', '')}\n")
        return app(environ, start_response)

    return make_server("127.0.0.1", 0, logged, threaded=True, request_handler=Quiet)


def _gs(log: TextIO) -> Any:
    from http.server import HTTPServer

    from gcp_storage_emulator.server import RequestHandler
    from gcp_storage_emulator.storage import Storage

    class Logged(RequestHandler):
        def parse_request(self) -> bool:
            is_good: bool = super().parse_request()
            if is_good:
                log.write(f"{self.command} {unquote(self.path)} {self.headers.get('Range', '')}\n")
            return is_good

    return HTTPServer(("127.0.0.1", 0), partial(Logged, Storage(use_memory_fs=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
