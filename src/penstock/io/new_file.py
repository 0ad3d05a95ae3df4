"""Files that are written as a whole: each has another name until it is complete.

The other name is beside the one asked for, so that giving the file its own is one step of the file system, after which
others see all of it. Where the name is a link, the file that it leads to is replaced, and the link stays. In a store of
objects (`s3://`, `gs://`) the step is a copy that the store makes: pyarrow's streams cannot be given up, and would
leave under the name whatever was written when an error came.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from typing import Any

from ..errors import BadArgument, SpillError
from .paths import is_local, local_path
from .remote import file_system_of

__all__ = ["REMOTE_BYTES", "NewFile"]

#: What the open stream of a remote file holds: the part of it that is sent next.
REMOTE_BYTES = 16 << 20


class NewFile:
    """A name under which a file appears with `publish`; `discard` leaves whatever was there before.

    Args:
        path: A path of this machine, or a URI.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._system: Any = None
        if is_local(path):
            self._target = os.path.realpath(local_path(path))
            # A name that is too long is refused now, not when the file is whole: until then it has another.
            with self.writing(), contextlib.suppress(FileNotFoundError):
                os.lstat(self._target)
            if os.path.islink(self._target):
                raise self.refused(OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
            if os.path.exists(self._target) and not os.path.isfile(self._target):
                raise BadArgument(f"path: expected the name of a file, got {path!r}, which is something else")
        else:
            with self.writing():
                system, self._target = file_system_of(path)
            self._system = _writing_in_turn(system)
        folder, name = os.path.split(self._target)
        self._temporary = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(4)}.part")

    @property
    def held_bytes(self) -> int:
        """What an open stream holds of what was written."""
        return 0 if self._system is None else REMOTE_BYTES

    def open(self, for_arrow: bool = False) -> Any:
        """A stream to write to, unbuffered where the file is of this machine; `for_arrow`: one that pyarrow knows."""
        with self.writing():
            if self._system is not None:
                return self._system.open_output_stream(self._temporary)
            if for_arrow:
                import pyarrow as pa

                return pa.OSFile(self._temporary, "wb")
            return open(self._temporary, "xb", buffering=0)

    def publish(self, sync: bool = False) -> None:
        """Gives the file its name, after its stream was closed; `sync`: when all of it is on the disk."""
        with self.writing():
            if self._system is not None:
                self._system.move(self._temporary, self._target)
                return
            if sync:
                with open(self._temporary, "rb+") as file:
                    os.fsync(file.fileno())
            os.replace(self._temporary, self._target)

    def discard(self) -> None:
        """Removes what was written, after its stream was closed."""
        try:
            if self._system is not None:
                self._system.delete_file(self._temporary)
            else:
                os.unlink(self._temporary)
        except FileNotFoundError:
            pass

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While it is written: what the system refuses is told with the name that the user gave."""
        try:
            yield
        except OSError as error:
            raise self.refused(error) from error

    def refused(self, error: OSError) -> SpillError:
        """What to raise where the system refuses something."""
        if isinstance(error, SpillError):
            return error
        why, folder = str(error), os.path.dirname(self._target)
        if self._system is None and error.errno is not None:  # pyarrow's text names the other name
            why = os.strerror(error.errno)
            if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.isdir(folder):
                why = f"there is no directory {folder}"
        refused = SpillError(
            f"cannot write to {self._path}: {why}; name a place that can be written to, with room in it"
        )
        refused.errno = error.errno
        return refused


def _writing_in_turn(system: Any) -> Any:
    """The same file system, with streams that wait until a part was sent, where they would keep any number of parts."""
    from pyarrow import fs

    if not isinstance(system, getattr(fs, "S3FileSystem", ())):
        return system
    reduced: Any = system.__reduce__()  # its settings; pyarrow has no other way to ask for them
    make, (settings,) = reduced
    return make({**settings, "background_writes": False})
