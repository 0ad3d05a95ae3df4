"""OpenCV and simplejpeg, loaded by the first function that needs them.

OpenCV would start threads of its own inside a single call. Here parallelism is `num_parallel_calls`, so they are
turned off when OpenCV is loaded. The setting is one of the process and cannot be made for one call only; a program
that wants OpenCV's threads elsewhere calls `cv2.setNumThreads` after its first use of `ps.image`.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

__all__ = ["opencv", "simplejpeg"]


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


def _load(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"ps.image needs {package}, which cannot be imported ({error}): pip install 'penstock[image]'", name=module
        ) from error
