"""Loads the frameworks, and runs each program that it is asked for in a fork of itself.

python server.py <socket to listen at> <what programs shall find as sys.executable>
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from typing import Any

import jax  # noqa: F401 - to be there already in what is forked
import tensorflow  # noqa: F401 - to be there already in what is forked
import torch  # noqa: F401 - to be there already in what is forked

from penstock.memory.allocator import trim_heap


def serve(address: str) -> dict[str, Any]:
    """Accepts requests for ever; returns in the process of each program, with what was asked for."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                # One process waits for the program and tells how it ended, while this one waits for the next request.
                if os.fork() == 0:
                    listener.close()
                    return start(connection)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def start(connection: socket.socket) -> dict[str, Any]:
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    request: dict[str, Any] = json.loads(connection.makefile().readline())
    program = os.fork()
    if program == 0:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return request
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(program)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(program, signal.SIGKILL)  # who asked for it is gone
    _, status = os.waitpid(program, 0)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def run(request: dict[str, Any], executable: str) -> None:
    """As the interpreter would, at the end of its own start."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.executable = executable
    program, *_ = arguments = request["arguments"]
    if program == "-c":
        sys.argv, sys.path[0] = ["-c", *arguments[2:]], ""
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(program))
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # a collection would copy every page that is shared until then
    trim_heap()  # or programs would find free memory, and not grow by what they take
    run(serve(sys.argv[1]), sys.argv[2])
