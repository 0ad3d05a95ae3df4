"""Images of a folder: a source of names, a `map` that loads them, and what leaves out those that cannot be loaded.

Names are what any order works on, and what waits in buffers; pixels come last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import BadArgument, BadType
from ..io.image_folder import FromImageFolder, LoadImage
from ..io.reading import check_on_error
from ..ops.ignore_errors import IgnoreErrors
from ..ops.map import Map
from ..plan.node import Node, Origin
from ..plan.op import argument

__all__ = ["image_folder_plan"]

_CHANNELS = (0, 1, 3, 4)
_METHODS = ("bilinear", "nearest", "area")


def image_folder_plan(
    source: FromImageFolder,
    image_size: Any,
    channels: int,
    interpolation: str,
    decode: bool,
    num_parallel_calls: int | None,
    on_error: str,
    origin: Origin,
) -> Node:
    """The plan of `Dataset.from_image_folder`."""
    check_on_error(on_error)
    if channels not in _CHANNELS:
        raise BadArgument(f"channels: expected 0, 1, 3 or 4, got {channels!r}")
    if interpolation not in _METHODS:
        raise BadArgument(f"interpolation: expected 'bilinear', 'nearest' or 'area', got {interpolation!r}")
    if image_size is not None and not decode:
        raise BadArgument("image_size: what is not decoded cannot be resized; leave out decode=False, or image_size")
    size = None if image_size is None else _checked_size(image_size)
    load = LoadImage(_Pixels(channels, size, interpolation) if decode else None)
    node = Node(Map(load, num_parallel_calls), (Node(source, (), origin),), origin)
    return node if on_error == "raise" else Node(IgnoreErrors(), (node,), origin)


def _checked_size(size: Any) -> tuple[int, int]:
    if not isinstance(size, (Sequence, np.ndarray)) or isinstance(size, (str, bytes)) or len(size) != 2:
        raise BadType(f"image_size: expected (height, width), got {size!r:.60}")
    height, width = [argument("image_size", number, at_least=1) for number in size]
    return height, width


@dataclasses.dataclass(frozen=True)
class _Pixels:
    """Decodes an image of any format, the first picture of an animation, and resizes it."""

    channels: int
    size: tuple[int, int] | None
    interpolation: str

    def __call__(self, contents: bytes) -> np.ndarray:
        from ..image import decode_image, resize  # not before it is needed: it takes libraries

        image = decode_image(contents, self.channels, expand_animations=False)
        return (
            image if self.size is None else resize(image, self.size, self.interpolation).astype(np.float32, copy=False)
        )
