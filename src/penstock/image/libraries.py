"""OpenCV and simplejpeg, loaded by the first function that needs them.

OpenCV would start threads of its own inside a single call. Here parallelism is `num_parallel_calls`, so they are
turned off when OpenCV is loaded. The setting is one of the process and cannot be made for one call only; a program
that wants OpenCV's threads elsewhere calls `cv2.setNumThreads` after its first use of `ps.image`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Iterator
from typing import Any

from .. import forked

__all__ = ["opencv", "simplejpeg", "without_log"]

_silence = forked.lock()
_num_silent = 0
_log_level = 0


def _forget_holders() -> None:
    """In a forked child: threads that were to put the level back are the parent's."""
    global _num_silent
    if _num_silent:
        _num_silent = 0
        _set_log_level(_log_level)


os.register_at_fork(after_in_child=_forget_holders)


@functools.cache
def opencv() -> Any:
    """The module cv2, running on the caller's thread only."""
    cv2 = _load("cv2", "opencv-python-headless")
    cv2.setNumThreads(0)
    return cv2


@functools.cache
def simplejpeg() -> Any:
    """The module simplejpeg: libjpeg-turbo with the GIL released."""
    return _load("simplejpeg", "simplejpeg")


@contextlib.contextmanager
def without_log() -> Iterator[None]:
    """Keeps OpenCV from writing to stderr what is raised as an error anyway.

    The level is one of the process: the first thread that comes in lowers it, the last that leaves puts it back.
    """
    global _num_silent, _log_level
    with _silence:
        if _num_silent == 0:
            _log_level = _set_log_level(0)
        _num_silent += 1
    try:
        yield
    finally:
        with _silence:
            _num_silent -= 1
            if _num_silent == 0:
                _set_log_level(_log_level)


def _set_log_level(level: int) -> int:
    """Returns the level as it was."""
    cv2 = opencv()
    set_level = cv2.setLogLevel if hasattr(cv2, "setLogLevel") else cv2.utils.logging.setLogLevel  # moved by OpenCV 5
    return int(set_level(level))


def _load(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"ps.image needs {package}, which cannot be imported ({error}): pip install 'penstock[image]'", name=module
        ) from error
