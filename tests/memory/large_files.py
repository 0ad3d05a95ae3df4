"""Large files for tests of memory, written a chunk at a time: cheap to make, and as long as asked for."""

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps

CHUNK = 16_000_000


def repeated(path: Path, nbytes: int, chunk: bytes, num_elements: int, head: bytes = b"") -> int:
    """Writes a chunk again and again; returns how many elements that makes."""
    times = max(1, round(nbytes / len(chunk)))
    with path.open("wb") as file:
        file.write(head)
        for _ in range(times):
            file.write(chunk)
    return times * num_elements


def text(path: Path, nbytes: int) -> int:
    count = min(nbytes, CHUNK) // 10_001
    return repeated(path, nbytes, (b"x" * 10_000 + b"\n") * count, count)


def records(path: Path, nbytes: int) -> int:
    """Of one length, all zeros: a file without blocks."""
    path.touch()
    os.truncate(path, nbytes // 10_000 * 10_000)
    return nbytes // 10_000


def tfrecord(path: Path, nbytes: int) -> int:
    count = min(nbytes, CHUNK) // 3_000
    record = ps.io.encode_example({"x": np.arange(700, dtype=np.float32), "y": 1, "text": b"t" * 100})
    framed = bytearray(count * (len(record) + 16))
    ps._native.frame_records([record] * count, framed, 0)
    return repeated(path, nbytes, bytes(framed), count)


def csv(path: Path, nbytes: int) -> int:
    lines = [f"{i},{i / 8},{'text ' * 80}{i}" for i in range(min(nbytes, CHUNK) // 420)]
    return repeated(path, nbytes, ("\n".join(lines) + "\n").encode(), len(lines), b"a,b,c\n")


def json_lines(path: Path, nbytes: int) -> int:
    lines = [json.dumps({"x": i, "v": [0.125] * 40, "t": "text " * 40}) for i in range(min(nbytes, CHUNK) // 530)]
    return repeated(path, nbytes, ("\n".join(lines) + "\n").encode(), len(lines))


def json_lists(path: Path, nbytes: int) -> int:
    """Lists that are longer and longer, and short again."""
    lines = [json.dumps({"l": [1] * (i % 1000 + 1)}, separators=(",", ":")) for i in range(min(nbytes, CHUNK) // 1000)]
    return repeated(path, nbytes, ("\n".join(lines) + "\n").encode(), len(lines))


def table(nbytes: int, num_columns: int) -> pa.Table:
    rows = np.random.default_rng(0).random((num_columns, nbytes // (8 * num_columns)))
    return pa.table({f"c{i}": column for i, column in enumerate(rows)})


def parquet(path: Path, nbytes: int) -> int:
    """As pyarrow writes random numbers by itself, with dictionaries that it gives up; row groups of 64 MB."""
    return written_by_pyarrow(path, nbytes, table(min(nbytes, 4 * CHUNK), 20))


def parquet_strings(path: Path, nbytes: int) -> int:
    rng = np.random.default_rng(0)
    text, ends = rng.bytes(1000), rng.integers(0, 400, min(nbytes, 4 * CHUNK) // 200)
    group = pa.table({"s": [text[:end] for end in ends.tolist()], "l": [rng.random(end % 9) for end in ends.tolist()]})
    return written_by_pyarrow(path, nbytes, group, use_dictionary=False, compression="none")


def written_by_pyarrow(path: Path, nbytes: int, group: pa.Table, **options: Any) -> int:
    times = max(1, round(1.2 * nbytes / group.nbytes))  # in the file offsets take less
    with pq.ParquetWriter(path, group.schema, **options) as writer:
        for _ in range(times):
            writer.write_table(group, row_group_size=group.num_rows)
    return times * group.num_rows


def arrow(path: Path, nbytes: int) -> int:
    piece = table(min(nbytes, CHUNK), 32)
    times = max(1, round(nbytes / piece.nbytes))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, piece.schema) as writer:
        for _ in range(times):
            writer.write_table(piece)
    return times * piece.num_rows


def tar(path: Path, nbytes: int) -> int:
    data = bytes(100_000)
    with tarfile.open(path, "w", bufsize=1 << 20) as archive:
        for i in range(nbytes // len(data)):
            info = tarfile.TarInfo(f"{i}.bin")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return nbytes // len(data)


def images(path: Path, nbytes: int) -> int:
    """One photograph of 0.6 MB under many names."""
    pixels = np.random.default_rng(0).integers(0, 256, (600, 800, 3), dtype=np.uint8)
    contents = ps.image.encode_jpeg(pixels, quality=90)
    first = path / "a" / "0.jpg"
    first.parent.mkdir(parents=True)
    first.write_bytes(contents)
    count = max(1, nbytes // len(contents))
    for i in range(1, count):
        (path / "a" / f"{i}.jpg").hardlink_to(first)
    return count


WRITERS: dict[str, Callable[[Path, int], int]] = {
    "text": text,
    "records": records,
    "tfrecord": tfrecord,
    "tfrecord-shuffled": tfrecord,
    "csv": csv,
    "csv-records": csv,
    "json-lines": json_lines,
    "parquet": parquet,
    "parquet-strings": parquet_strings,
    "arrow": arrow,
    "tar": tar,
    "images": images,
    "images-filled": images,
}
