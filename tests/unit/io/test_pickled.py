"""Datasets that are pickled, as for processes that are started anew: every source gives the same there."""

import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
NUM = 24
pa = pytest.importorskip("pyarrow")


def count() -> Any:
    return iter(range(NUM))


def some_of(rows: Any) -> Any:
    return [rows[:i] for i in range(NUM)]


def table() -> Any:
    days = np.arange(NUM).astype("datetime64[D]")
    return pa.table(
        {
            "n": list(range(NUM)),
            "x": pa.array([[i, i] for i in range(NUM)], pa.list_(pa.float32(), 2)),
            "name": [f"row {i}" for i in range(NUM)],
            "kind": pa.array(["a", "b"] * (NUM // 2)).dictionary_encode(),
            "some": some_of(list(range(NUM))),
            "lists": [[[i], [i + 1]] for i in range(NUM)],
            "day": pa.array(days, pa.date32()),
            "good": [True, False] * (NUM // 2),
            "both": [{"a": i, "b": str(i)} for i in range(NUM)],
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pyarrow.ipc
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("pickled")
    (folder / "a.txt").write_text("".join(f"line {i:3}\n" for i in range(NUM)))
    (folder / "a.csv").write_text("n,x,s\n" + "".join(f"{i},{i}.5,a\n" for i in range(NUM)))
    (folder / "a.jsonl").write_text("".join(f'{{"n": {i}, "s": ["a"]}}\n' for i in range(NUM)))
    with ps.io.TFRecordWriter(folder / "a.tfrecord") as writer:
        for i in range(NUM):
            writer.write(ps.io.encode_example({"n": [i]}))
    pq.write_table(table(), folder / "a.parquet", row_group_size=5)
    for name, compression in (("a.arrow", None), ("packed.arrow", "lz4")):
        options = pyarrow.ipc.IpcWriteOptions(compression=compression)
        with pyarrow.ipc.new_file(str(folder / name), table().schema, options=options) as writer:
            writer.write_table(table(), max_chunksize=7)
    with tarfile.open(folder / "a.tar", "w") as tar:
        for i in range(3):
            info = tarfile.TarInfo(f"{i}.txt")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
    D.range(NUM).save(folder / "saved")
    return folder


SOURCES: dict[str, Callable[[Path], Any]] = {
    "slices": lambda files: D.from_tensor_slices({"a": np.arange(NUM), "s": np.array(["a"] * NUM)}),
    "from_generator": lambda files: D.from_generator(count),
    "signature": lambda files: D.from_generator(count, ps.TensorSpec((), "int32")),
    "from_arrow": lambda files: D.from_arrow(table()),
    "arrow file": lambda files: D.from_arrow(files / "a.arrow"),
    "packed arrow file": lambda files: D.from_arrow(files / "packed.arrow"),
    "from_parquet": lambda files: D.from_parquet(files / "a.parquet"),
    "from_csv": lambda files: D.from_csv(files / "a.csv"),
    "from_json_lines": lambda files: D.from_json_lines(files / "a.jsonl"),
    "from_tar": lambda files: D.from_tar(files / "a.tar"),
    "list_files": lambda files: D.list_files(str(files / "a.*")),
    "load": lambda files: D.load(files / "saved"),
    "TFRecordDataset": lambda files: ps.TFRecordDataset(files / "a.tfrecord"),
    "two at a time": lambda files: ps.TFRecordDataset([files / "a.tfrecord"] * 2, num_parallel_reads=2),
    "TextLineDataset": lambda files: ps.TextLineDataset([files / "a.txt"] * 2, num_parallel_reads=1),
    "FixedLengthRecordDataset": lambda files: ps.FixedLengthRecordDataset(files / "a.txt", 9),
    "names in a dataset": lambda files: ps.FixedLengthRecordDataset(D.from_tensors(str(files / "a.txt")), 9),
    "CsvDataset": lambda files: ps.CsvDataset(files / "a.csv", [np.int64(0), np.float32, b""], header=True),
}


def shown(dataset: Any) -> list[str]:
    return [repr(element) for element in dataset.run(epoch=0)]


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_gives_the_same_in_another_process(source: str, files: Path) -> None:
    dataset = SOURCES[source](files)
    for made in (dataset, dataset.shuffle(5, seed=1)):
        assert shown(pickle.loads(pickle.dumps(made))) == shown(made) != []
    assert shown(pickle.loads(pickle.dumps(dataset))) == shown(dataset)  # and after it has run
    run = pickle.loads(pickle.dumps(dataset)).run(epoch=0)
    next(run)
    again = dataset.run()
    again.load_state_dict(run.state_dict())
    assert [repr(element) for element in again] == shown(dataset)[1:]


def test_a_mapped_file_is_not_copied(files: Path, tmp_path: Path) -> None:
    import pyarrow.ipc

    large = pa.table({"x": np.arange(100_000)})
    with pyarrow.ipc.new_file(str(tmp_path / "large.arrow"), large.schema) as writer:
        writer.write_table(large)
    dataset = D.from_arrow(tmp_path / "large.arrow").batch(1000)
    assert len(pickle.dumps(dataset)) < 10_000
    assert len(pickle.loads(pickle.dumps(dataset))) == 100
