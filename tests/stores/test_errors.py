"""What stores of objects refuse: errors that name the URI."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps

from .stores import Folder, Server

D = ps.Dataset

READERS: list[Callable[[str], Any]] = [
    lambda uri: list(ps.TFRecordDataset(uri)),
    lambda uri: list(ps.TFRecordDataset(uri, "GZIP")),
    lambda uri: list(ps.TFRecordDataset(uri, index="memory").shuffle(9)),
    lambda uri: list(ps.TextLineDataset(uri)),
    lambda uri: list(ps.FixedLengthRecordDataset(uri, 4)),
    lambda uri: list(ps.CsvDataset(uri, [np.int64])),
    D.from_csv,
    D.from_json_lines,
    D.from_parquet,
    D.from_arrow,
    lambda uri: list(D.from_tar(uri)),
    D.from_image_folder,
    ps.io.read_file,
]
WRITERS: list[Callable[[str], Any]] = [
    ps.io.TFRecordWriter,
    D.range(3).map(lambda n: {"n": n}).to_tfrecord,
    D.range(3).map(lambda n: {"n": n}).to_parquet,
]


@pytest.mark.parametrize("read", READERS)
def test_what_is_not_there(store: Folder, read: Callable[[str], Any]) -> None:
    store.put("other", b"")
    elsewhere = f"{store.uri.replace('penstock-tests', 'penstock-nothing')}/t{store.options}"
    for uri in (store / "gone", elsewhere):
        with pytest.raises(FileNotFoundError, match=re.escape(uri)):
            read(uri)


def test_patterns_of_nothing(store: Folder) -> None:
    elsewhere = f"{store.uri.replace('penstock-tests', 'penstock-nothing')}/*{store.options}"
    for uri in (store / "*", elsewhere):
        with pytest.raises(ps.errors.BadArgument, match=re.escape(f"no file matches {uri!r}")):
            ps.TextLineDataset(uri)
    with pytest.raises(ps.errors.BadArgument, match="expected a bucket or server"):
        ps.TextLineDataset("s3://*/x")


def test_options_that_no_file_system_has(store: Folder) -> None:
    uri = f"{store.uri}/t?colour=red"
    with pytest.raises(ps.errors.BadArgument, match=f"got '{re.escape(store.uri)}"):
        list(ps.TextLineDataset(uri))


@pytest.mark.parametrize("write", WRITERS)
def test_buckets_that_are_not_there(store: Folder, write: Callable[[str], Any]) -> None:
    uri = f"{store.uri.replace('penstock-tests', 'penstock-nothing')}/t{store.options}"
    with pytest.raises(ps.errors.SpillError, match=f"cannot write to {re.escape(uri)}: "):
        write(uri)


@pytest.fixture
def refusing(s3: Server) -> Iterator[Server]:
    """The server while it knows nobody."""

    def allow(num_requests: str) -> None:
        address = f"http://{s3.address}/moto-api/reset-auth"
        request = urllib.request.Request(address, num_requests.encode(), {"Content-Type": "text/plain"})
        urllib.request.urlopen(request).close()

    allow("0")
    yield s3
    allow("inf")


@pytest.mark.parametrize("call", READERS + WRITERS)
def test_credentials_that_are_wrong(refusing: Server, call: Callable[[str], Any]) -> None:
    uri = f"s3://name:wrong@penstock-tests/t?endpoint_override={refusing.address}&scheme=http&region=us-east-1"
    refusal = "AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID)"  # what a request without an answer of its own says
    with pytest.raises((ps.errors.FormatError, OSError), match=f"{re.escape(uri)}: .*{refusal}"):
        call(uri)


def test_patterns_with_credentials_that_are_wrong(refusing: Server) -> None:
    uri = f"s3://name:wrong@penstock-tests/*?endpoint_override={refusing.address}&scheme=http&region=us-east-1"
    with pytest.raises(ps.errors.FormatError, match=f"{re.escape(uri)}: cannot be read: .*INVALID_ACCESS_KEY_ID"):
        ps.TextLineDataset(uri)
