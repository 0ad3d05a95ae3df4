"""Tar archives: samples, long names, positions, budgets, hostile headers."""

import gzip
import io
import os
import random
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.errors import FormatError
from penstock.testing import check_op
from tests.unit.io.files import at_the_minimum, failed_by_file

FILES = [(f"set/{i:03}.{end}", data) for i in range(9) for end, data in (("TXT", b"x" * i * 300), ("cls", b"%d" % i))]
SAMPLES = [{"__key__": b"set/%03d" % i, "txt": b"x" * i * 300, "cls": b"%d" % i} for i in range(9)]


def archive(files: list[tuple[str, bytes]], **options: Any) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.tar").write_bytes(archive(FILES))
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(archive(FILES)))
    return tmp_path


def test_samples(folder: Path) -> None:
    assert list(ps.Dataset.from_tar([folder / "a.tar", folder / "b.tar.gz"])) == SAMPLES * 2
    chosen = ps.Dataset.from_tar(folder / "a.tar", columns=["cls"])
    assert [sample["cls"] for sample in chosen] == [b"%d" % i for i in range(9)]
    assert chosen.element_spec == {"__key__": ps.TensorSpec((), ps.string), "cls": ps.TensorSpec((), ps.string)}
    (batch,) = chosen.batch(9)
    assert batch["cls"].tolist() == [b"%d" % i for i in range(9)]


def test_the_laws(folder: Path) -> None:
    check_op(ps.Dataset.from_tar([folder / "a.tar", folder / "no.tar", folder / "b.tar.gz"]))
    check_op(ps.Dataset.from_tar(folder / "a.tar", columns=["txt"]).skip(3).shuffle(3, seed=1))


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_names(tmp_path: Path, kind: int) -> None:
    name = ("long/" * 25 + "n" * 60) if kind != tarfile.USTAR_FORMAT else "short"
    unicode = "é" if kind != tarfile.USTAR_FORMAT else "e"
    files = [(f"{name}.a.b", b"1"), ("none", b"-"), (".hidden", b"-"), (f"{name}.c", b"2"), (f"x.y/{unicode}.z", b"3")]
    data = archive(files, format=kind)
    (tmp_path / "a.tar").write_bytes(data)
    expected = [{"__key__": name.encode(), "a.b": b"1", "c": b"2"}, {"__key__": f"x.y/{unicode}".encode(), "z": b"3"}]
    assert list(ps.Dataset.from_tar(tmp_path / "a.tar")) == expected
    check_op(ps.Dataset.from_tar(tmp_path / "a.tar"))


def test_folders_are_passed_over_and_symbolic_links_are_errors(tmp_path: Path) -> None:
    (tmp_path / "d.x").mkdir()
    (tmp_path / "d.x" / "1.a").write_bytes(b"1")
    (tmp_path / "d.x" / "2.a").symlink_to("1.a")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "d.x", "d.x")
    run = ps.Dataset.from_tar(tmp_path / "a.tar", on_error="skip").run()
    assert list(run) == [{"__key__": b"d.x/1", "a": b"1"}]
    assert failed_by_file(run) == {str(tmp_path / "a.tar"): 1}
    with pytest.raises(FormatError, match=r"of d.x/2.a, got a symbolic link to 1.a: write .* with --dereference"):
        list(ps.Dataset.from_tar(tmp_path / "a.tar"))


@pytest.mark.parametrize("options", [["--format=gnu"], ["--format=pax"], ["--format=pax", "--sparse-version=0.1"]])
def test_sparse_files_are_errors_in_their_place(tmp_path: Path, options: list[str]) -> None:
    """With so many pieces that GNU's list of them does not fit into the header."""
    with (tmp_path / "1.bin").open("wb") as out:
        for i in range(60):
            out.seek(i * 65_536)
            out.write(b"hello")
    (tmp_path / "1.txt").write_bytes(b"one")
    (tmp_path / "2.txt").write_bytes(b"two")
    names = ["1.bin", "1.txt", "2.txt"]
    subprocess.run(["tar", "-S", *options, "-cf", "a.tar", *names], cwd=tmp_path, check=True)
    dataset = ps.Dataset.from_tar(tmp_path / "a.tar")
    run = dataset.run()
    with pytest.raises(FormatError, match=r"a.tar, sample 1: expected the bytes of 1.bin, got a sparse file"):
        next(run)
    assert list(run) == [{"__key__": b"2", "txt": b"two"}]
    texts = ps.Dataset.from_tar(tmp_path / "a.tar", columns=["txt"])
    assert [sample["txt"] for sample in texts] == [b"one", b"two"]
    check_op(dataset)


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_hard_links_are_errors_in_their_place(tmp_path: Path, kind: int) -> None:
    long = "long/" * 30
    with tarfile.open(tmp_path / "a.tar", "w", format=kind) as tar:
        for name, link in ((f"{long}1.a", ""), (f"{long}2.a", f"{long}1.a"), ("3.a", "")):
            info = tarfile.TarInfo(name)
            info.size, info.linkname = 1, link
            info.type = tarfile.LNKTYPE if link else tarfile.REGTYPE
            tar.addfile(info, None if link else io.BytesIO(b"x"))
    run = ps.Dataset.from_tar(tmp_path / "a.tar").run()
    assert next(run)["__key__"] == f"{long}1".encode()
    with pytest.raises(FormatError, match=rf"2.a, got a hard link to {long}1.a: write the archive with --hard-deref"):
        next(run)
    assert list(run) == [{"__key__": b"3", "a": b"x"}]


def test_sizes_that_attributes_give(tmp_path: Path) -> None:
    info = tarfile.TarInfo("1.a")
    info.pax_headers = {"size": "600"}
    data = info.tobuf(tarfile.PAX_FORMAT) + b"x" * 600 + bytes(424) + archive([("2.a", b"2")])
    (tmp_path / "a.tar").write_bytes(data)
    assert [sample["a"] for sample in ps.Dataset.from_tar(tmp_path / "a.tar")] == [b"x" * 600, b"2"]


def test_a_size_that_is_none_ends_its_archive(tmp_path: Path) -> None:
    info = tarfile.TarInfo("1.a")
    info.pax_headers = {"size": "1" * 5000}
    (tmp_path / "a.tar").write_bytes(info.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    (tmp_path / "b.tar").write_bytes(archive([("2.a", b"2")]))
    run = ps.Dataset.from_tar([tmp_path / "a.tar", tmp_path / "b.tar"], on_error="skip").run()
    assert [sample["a"] for sample in run] == [b"2"]
    assert failed_by_file(run) == {str(tmp_path / "a.tar"): 1}
    with pytest.raises(FormatError, match=r"a.tar: expected the size of a file at byte [\d,]+, got 5,000 digits"):
        list(ps.Dataset.from_tar(tmp_path / "a.tar"))


@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
@pytest.mark.parametrize("attributes", [{}, {"size": "600"}])
def test_no_bytes_follow_folders_and_devices(tmp_path: Path, kind: bytes, attributes: dict[str, str]) -> None:
    info = tarfile.TarInfo("d")
    info.type, info.size, info.pax_headers = kind, 100, attributes
    (tmp_path / "a.tar").write_bytes(info.tobuf(tarfile.PAX_FORMAT) + archive([("d/1.a", b"1"), ("d/2.a", b"2")]))
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert tar.getnames() == ["d", "d/1.a", "d/2.a"]
    assert [sample["a"] for sample in ps.Dataset.from_tar(tmp_path / "a.tar")] == [b"1", b"2"]


def test_bad_archives_are_errors_in_their_place(folder: Path) -> None:
    data = archive(FILES)
    (folder / "cut.tar").write_bytes(data[:2500])
    (folder / "text.tar").write_bytes(b"hello " * 200)
    (folder / "empty.tar").write_bytes(b"")
    huge = bytearray(data)
    info = tarfile.TarInfo("0.bin")
    info.size = 2**62
    huge[:512] = info.tobuf(tarfile.GNU_FORMAT)[:512]
    (folder / "huge.tar").write_bytes(huge)
    names = ["cut.tar", "text.tar", "empty.tar", "huge.tar", "a.tar"]
    run = ps.Dataset.from_tar([folder / name for name in names], on_error="skip").run(memory="1MB")
    found = list(run)
    assert found[-9:] == SAMPLES
    assert found[0] == SAMPLES[0]
    assert failed_by_file(run) == {str(folder / name): 1 for name in ("cut.tar", "text.tar", "huge.tar")}
    check_op(ps.Dataset.from_tar([folder / name for name in names]))
    with pytest.raises(ps.errors.FormatError, match=r"text.tar: expected a tar header at byte 0, got"):
        list(ps.Dataset.from_tar(folder / "text.tar"))
    with pytest.raises(ps.errors.FormatError, match=r"expected 4,611,686,018,427,387,904 bytes of 0.bin, got"):
        list(ps.Dataset.from_tar(folder / "huge.tar"))


@pytest.mark.parametrize("num_zeros", [0, 512, 700, 1024, 9 * 512])
def test_ends_of_archives(tmp_path: Path, num_zeros: int) -> None:
    """As tar and tarfile read them: two blocks of zeros, a part of them, or nothing; what follows two is not read."""
    data = archive(FILES[1::2])[: 9 * 1024]
    (tmp_path / "a.tar").write_bytes(data + bytes(num_zeros) + (b"behind" if num_zeros >= 1024 else b""))
    dataset = ps.Dataset.from_tar(tmp_path / "a.tar")
    assert [sample["cls"] for sample in dataset] == [b"%d" % i for i in range(9)]
    check_op(dataset)


def test_a_block_of_zeros_inside_is_an_error(tmp_path: Path) -> None:
    data = bytearray(archive(FILES[1::2]))
    data[4096:4608] = bytes(512)  # the header of the fifth
    (tmp_path / "a.tar").write_bytes(data)
    run = ps.Dataset.from_tar(tmp_path / "a.tar").run()
    assert [next(run)["cls"] for _ in range(3)] == [b"0", b"1", b"2"]
    with pytest.raises(FormatError, match=r"a.tar: expected a tar header at byte 4,096, got zeros, and then other"):
        next(run)
    assert list(run) == []


def test_the_end_of_a_compressed_archive_is_looked_at(folder: Path) -> None:
    """Its checksum and length lie far behind the end of the tar, also where nothing inside them is wrong."""
    noise = random.Random(1).randbytes(100_000)
    data = gzip.compress(archive([*FILES[1::2], ("9.bin", noise)]) + noise)
    names = []
    for i, bad in enumerate([data[:-n] for n in range(1, 10)] + [data[:-8] + bytes(8), data[:-4] + bytes(4)]):
        (folder / f"{i}.tgz").write_bytes(bad)
        names.append(str(folder / f"{i}.tgz"))
    run = ps.Dataset.from_tar(names, on_error="skip").run()
    assert [len(sample) for sample in run] == [2] * 10 * len(names)
    assert failed_by_file(run) == dict.fromkeys(names, 1)
    with pytest.raises(FormatError, match=r"0.tgz: expected more GZIP data, the file ends at byte"):
        list(ps.Dataset.from_tar(names[0]))
    check_op(ps.Dataset.from_tar([*names[:1], folder / "a.tar"]))


@pytest.mark.parametrize("name", ["a.TGZ", "plain.tar"])
def test_compressed_archives_are_known_by_their_first_bytes(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / "b.tar.gz").read_bytes())
    dataset = ps.Dataset.from_tar(folder / name)
    assert at_the_minimum(dataset) == SAMPLES
    check_op(dataset)


def test_a_pipe_is_read_only_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tar")
    writer = threading.Thread(target=(tmp_path / "a.tar").write_bytes, args=[archive(FILES)], daemon=True)
    writer.start()
    assert list(ps.Dataset.from_tar(tmp_path / "a.tar")) == SAMPLES
    writer.join(60)


def test_names_in_braces(tmp_path: Path) -> None:
    for i in range(8, 12):
        (tmp_path / f"s-{i:03}.tar").write_bytes(archive([("1.a", b"%d" % i)]))

    def read(*names: str) -> list[bytes]:
        return [sample["a"] for sample in ps.Dataset.from_tar([str(tmp_path / name) for name in names])]

    assert read("s-{008..011}.tar") == [b"8", b"9", b"10", b"11"]
    assert read("s-{010..8}.tar") == [b"10", b"9", b"8"]
    assert read("s-{011,009}.tar") == [b"11", b"9"]
    assert read("s-0{0,1}?.tar") == [b"8", b"9", b"10", b"11"]
    (tmp_path / "s-{8..9}.tar").write_bytes(archive([("1.a", b"just that name")]))
    assert read("s-{8..9}.tar") == [b"just that name"]
    with pytest.raises(ps.errors.FileMissing, match=r"s-\{8\}.tar: expected a file"):
        read("s-{8}.tar")
    with pytest.raises(ps.errors.BadArgument, match=r"expected a name that means at most 1,000,000 files"):
        read("{0..9999}{0..9999}.tar")


def test_samples_that_do_not_fit_are_errors_in_their_place(tmp_path: Path) -> None:
    files = [
        ("1.a", b"1"),
        ("1.b", b"2"),
        ("2.a", b"3"),
        ("3.a", b"4"),
        ("3.A", b"5"),
        ("3.b", b"6"),
        ("4.a", b"7"),
        ("4.b", b"8"),
    ]
    (tmp_path / "a.tar").write_bytes(archive(files))
    run = ps.Dataset.from_tar(tmp_path / "a.tar", columns=["a", "b"]).ignore_errors().run()
    assert [sample["__key__"] for sample in run] == [b"1", b"4"]
    assert failed_by_file(run) == {str(tmp_path / "a.tar"): 2}
    with pytest.raises(ps.errors.FormatError, match=r"sample 2: expected a file b, got a"):
        list(ps.Dataset.from_tar(tmp_path / "a.tar", columns=["a", "b"]))


def test_the_minimum_is_enough(folder: Path) -> None:
    (folder / "large.tar").write_bytes(archive([(f"{i}.bin", b"x" * 30_000) for i in range(9)]))
    for name in ("a.tar", "b.tar.gz", "large.tar"):
        assert len(at_the_minimum(ps.Dataset.from_tar(folder / name))) == 9


def test_an_archive_far_larger_than_the_budget(tmp_path: Path) -> None:
    (tmp_path / "large.tar").write_bytes(archive([(f"{i}.bin", bytes(100_000)) for i in range(200)]))
    with ps.Dataset.from_tar(tmp_path / "large.tar").run(memory="1MB") as run:
        assert sum(1 for _ in run) == 200
        assert run.ledger.peak_bytes <= 1_000_000
