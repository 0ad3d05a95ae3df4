"""Sources and sinks, one file per kind of data; and for users, `ps.io`: Examples and TFRecord files.

Functions that decode images are those of `ps.image`; they are here because TensorFlow has them in `tf.io`. The names
of `ps.io` are loaded when the first of them is asked for: `import penstock` does not wait for them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Not on demand: the function has the name of its module, which would take its place once it is loaded.
from .read_file import read_file

if TYPE_CHECKING:
    from ..image.decode import decode_and_crop_jpeg, decode_bmp, decode_gif, decode_image, decode_jpeg, decode_png
    from .example import ExampleParser, parse_example, parse_single_example
    from .example_encoder import encode_example, encode_examples, encode_sequence_example
    from .features import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature, VarLenFeature
    from .sequence_example import SequenceExampleParser, parse_sequence_example, parse_single_sequence_example
    from .tfrecord_writer import TFRecordOptions, TFRecordWriter

__all__ = [
    "ExampleParser",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SequenceExampleParser",
    "SparseFeature",
    "TFRecordOptions",
    "TFRecordWriter",
    "VarLenFeature",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "encode_example",
    "encode_examples",
    "encode_sequence_example",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "read_file",
]

_HOMES = {
    "ExampleParser": "example",
    "FixedLenFeature": "features",
    "FixedLenSequenceFeature": "features",
    "RaggedFeature": "features",
    "SequenceExampleParser": "sequence_example",
    "SparseFeature": "features",
    "TFRecordOptions": "tfrecord_writer",
    "TFRecordWriter": "tfrecord_writer",
    "VarLenFeature": "features",
    "decode_and_crop_jpeg": ".image.decode",
    "decode_bmp": ".image.decode",
    "decode_gif": ".image.decode",
    "decode_image": ".image.decode",
    "decode_jpeg": ".image.decode",
    "decode_png": ".image.decode",
    "encode_example": "example_encoder",
    "encode_examples": "example_encoder",
    "encode_sequence_example": "example_encoder",
    "parse_example": "example",
    "parse_sequence_example": "sequence_example",
    "parse_single_example": "example",
    "parse_single_sequence_example": "sequence_example",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    values = {each: getattr(importlib.import_module(f".{home}", __name__), each) for each, home in _HOMES.items()}
    globals().update(values)
    # Names of a module that has this function are looked up ten times as slowly, in every call of theirs.
    globals().pop("__getattr__", None)
    return values[name]


def __dir__() -> list[str]:
    return sorted(__all__)
