"""Servers, one of each kind for each process that runs tests, and a folder in them for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from .stores import Folder, Server, serving

_BUCKET = "penstock-tests"


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("s3", tmp_path_factory.mktemp("s3") / "log") as server:
        allowed = type(server.system)(**{**server.system.__reduce__()[1][0], "allow_bucket_creation": True})
        allowed.create_dir(_BUCKET)
        yield server


@pytest.fixture(scope="session")
def gs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("gs", tmp_path_factory.mktemp("gs") / "log") as server:
        server.system.create_dir(_BUCKET)
        yield server


@pytest.fixture(params=["s3", "gs"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A new folder in a bucket: of S3, which is found by the environment, or of GCS, by options in URIs."""
    server: Server = request.getfixturevalue(request.param)
    path = f"{_BUCKET}/{uuid.uuid4().hex[:8]}"
    if request.param == "gs":
        options = f"?endpoint_override={server.address}&scheme=http&retry_limit_seconds=5"
        return Folder(server, path, f"gs://anonymous@{path}", options)
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server.address}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return Folder(server, path, f"s3://{path}", "")
