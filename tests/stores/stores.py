"""Stores of objects for tests: buckets of real servers, each a process of this machine."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import fs

__all__ = ["Folder", "Server", "serving"]

ROOT = Path(__file__).parent.parent.parent


@dataclasses.dataclass
class Server:
    """One that is running: its address, how pyarrow reaches it, and what it was asked."""

    kind: str
    address: str
    system: Any
    log: Path

    def requests(self) -> list[str]:
        """All requests so far: method, path and range."""
        return self.log.read_text().splitlines()


@contextmanager
def serving(kind: str, log: Path) -> Iterator[Server]:
    """Starts a server: of "s3" or "gs"."""
    command = [sys.executable, "-m", "tests.stores.server", kind, str(log)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = f"127.0.0.1:{int(process.stdout.readline())}"
            yield Server(kind, address, _SYSTEMS[kind](address), log)
        finally:
            process.kill()


def _s3(address: str) -> Any:
    return fs.S3FileSystem(
        access_key="name", secret_key="secret", endpoint_override=address, scheme="http", region="us-east-1"
    )


def _gs(address: str) -> Any:
    return fs.GcsFileSystem(anonymous=True, endpoint_override=address, scheme="http", project_id="test")


_SYSTEMS = {"s3": _s3, "gs": _gs}


@dataclasses.dataclass
class Folder:
    """A folder of a bucket, for one test.

    Attributes:
        path: Its path, bucket first.
        uri: How users name it, without what follows a path.
        options: What follows a path in a URI; nothing where the environment says it.
    """

    server: Server
    path: str
    uri: str
    options: str

    def __truediv__(self, name: str) -> str:
        """The URI of something in it."""
        return f"{self.uri}/{name}{self.options}"

    def put(self, name: str, data: bytes) -> str:
        """Makes an object, and gives its URI."""
        with self.server.system.open_output_stream(f"{self.path}/{name}", compression=None) as stream:
            stream.write(data)
        return self / name

    def get(self, name: str) -> bytes:
        """What an object holds."""
        with self.server.system.open_input_file(f"{self.path}/{name}") as file:
            data: bytes = file.read()
        return data

    def names(self) -> list[str]:
        """All objects below it."""
        found = self.server.system.get_file_info(fs.FileSelector(self.path, recursive=True, allow_not_found=True))
        return sorted(info.path.removeprefix(f"{self.path}/") for info in found if info.is_file)

    def requests(self) -> list[str]:
        """What the server was asked about it since the last call, or the beginning."""
        asked = [line for line in self.server.requests() if self.path.partition("/")[2] in line]
        new, self._seen = asked[self._seen :], len(asked)
        return new

    def __post_init__(self) -> None:
        self._seen = 0
