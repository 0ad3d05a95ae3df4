"""A Python that has the frameworks loaded already: called like `sys.executable`, it starts in milliseconds.

An import of TensorFlow takes seconds, more than most programs that tests run with it. So one process loads the
frameworks and does nothing else with them, and each program runs in a fork of it: a process of its own, with its own
arguments, environment, directory and streams, that can be killed, and whose memory is measured from where it starts.

Not for programs that are about the start itself, nor for Keras on another backend than TensorFlow.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["loaded_python"]

HERE = Path(__file__).parent
# What frameworks read while they are loaded; all else a program may choose for itself.
WHILE_LOADED = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
}


@contextmanager
def loaded_python(folder: Path) -> Iterator[str]:
    """The name of an executable that takes the arguments `-c program …` or `program.py …`."""
    address, launcher = folder / "socket", folder / "python"
    with subprocess.Popen(
        [sys.executable, str(HERE / "server.py"), str(address), str(launcher)],
        env=os.environ | WHILE_LOADED,
        stdout=subprocess.PIPE,
        start_new_session=True,  # all of its programs end with it
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            client = [sys.executable, "-I", "-S", str(HERE / "client.py"), str(address)]
            launcher.write_text(f'#!/bin/sh\nexec {shlex.join(client)} "$@"\n')
            launcher.chmod(0o755)
            yield str(launcher)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
