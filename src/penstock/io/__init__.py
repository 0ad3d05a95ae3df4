"""Sources and sinks: one file per kind of data."""

# Not loaded on demand: the function has the name of its module, which would take its place once it is loaded.
from .read_file import read_file

__all__ = ["read_file"]
