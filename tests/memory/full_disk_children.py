"""Programs that run on a disk that gets full, in a process of their own: it may have mounted the disk, or be limited.

python full_disk_children.py <name> <the full disk> <another disk>: see PROGRAMS at the end. Each prints what the error
said, once all that must hold has been checked.
"""

import contextlib
import gc
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import penstock as ps

D = ps.Dataset
COUNT = 150
ELEMENT_BYTES = 80_000


def elements() -> D:
    """12 MB."""
    return D.range(COUNT).map(lambda n: np.full(ELEMENT_BYTES // 8, n))


def stream() -> D:
    return elements().filter(lambda x: True)


# Bytes that a file may have, where a limit stands for a full disk.
LIMIT: list[int] = []


@contextlib.contextmanager
def on_full_disk() -> Iterator[None]:
    """The full disk is full by itself; a limit is on all files, and so only while that disk is written to."""
    for nbytes in LIMIT:  # Python ignores the signal that comes with it
        resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def refused(run: ps.Run) -> tuple[list[int], ps.errors.SpillError]:
    """What a run delivered before the disk was full, and its error."""
    found: list[int] = []
    try:
        with on_full_disk():
            for x in run:
                found.append(int(x[0]))
    except ps.errors.SpillError as error:
        told = error
    else:
        raise AssertionError("the disk had room for all of it")
    assert run.ledger.charged_bytes == 0
    return found, told


def rest(run: ps.Run, before: ps.Run) -> list[int]:
    with run:
        run.load_state_dict(before.state_dict())
        return [int(x[0]) for x in run]


def data_files(disk: Path) -> list[str]:
    return sorted(str(path.relative_to(disk)) for path in disk.rglob("*") if path.is_file())


def cache_file(disk: Path, other: Path) -> str:
    def cached(folder: Path) -> D:
        return elements().cache(folder / "kept.arrow").with_options(ps.Options(memory="1MB"))

    ds = cached(disk)
    run = ds.run()
    found, error = refused(run)
    assert found == list(range(len(found)))
    assert not (disk / "kept.arrow").exists()
    assert found + rest(cached(other).run(), run) == list(range(COUNT))
    assert [int(x[0]) for x in cached(other)] == list(range(COUNT))
    assert (other / "kept.arrow").exists()
    # The disk has its room back once nobody reads the file any more, and a second try gets as far as the first.
    assert data_files(disk) == []
    text = str(error)
    del run, error
    gc.collect()
    again, _ = refused(ds.run())
    assert again == found
    assert data_files(disk) == []
    return text


def save(disk: Path, other: Path) -> str:
    D.range(10).save(disk)
    for dataset in (elements(), D.zip((elements(), D.range(COUNT)))):
        try:
            with on_full_disk():
                dataset.save(disk)
        except ps.errors.SpillError as error:
            text = str(error)
        else:
            raise AssertionError("the disk had room for all of it")
    assert [int(x) for x in D.load(disk)] == list(range(10))
    assert len(data_files(disk)) == 2  # what was there before, and what names it
    elements().save(other)
    assert [int(x[0]) for x in D.load(other)] == list(range(COUNT))
    return text


def snapshot(disk: Path, other: Path) -> str:
    run = elements().snapshot(disk).run(memory="2MB")
    found, error = refused(run)
    assert found == list(range(len(found)))
    assert data_files(disk) == []
    assert found + rest(elements().snapshot(other).run(memory="2MB"), run) == list(range(COUNT))
    return str(error)


def shuffle(disk: Path, other: Path) -> str:
    def shuffled(folder: Path) -> D:
        options = ps.Options(memory="1MB", spill_dir=folder, progress=False)
        return stream().shuffle(120, seed=1, reshuffle_each_iteration=False).with_options(options)

    run = shuffled(disk).run()
    found, error = refused(run)
    assert data_files(disk) == []
    expected = [int(x[0]) for x in shuffled(other)]
    assert found == expected[: len(found)]
    assert found + rest(shuffled(other).run(), run) == expected
    assert sorted(expected) == list(range(COUNT))
    return str(error)


def cache(disk: Path, other: Path) -> str:
    calls: list[int] = []
    ds = D.range(COUNT).map(lambda n: calls.append(int(n)) or np.full(ELEMENT_BYTES // 8, n)).cache()

    def on(folder: Path) -> D:
        return ds.with_options(ps.Options(memory="1MB", spill_dir=folder, progress=False))

    run = on(disk).run()
    found, error = refused(run)
    assert found == list(range(len(found)))
    # What was kept is kept, and read from the full disk; what comes next goes elsewhere.
    assert found + rest(on(other).run(), run) == list(range(COUNT))
    assert [int(x[0]) for x in on(other)] == list(range(COUNT))
    assert len(calls) <= COUNT + 2
    return str(error)


PROGRAMS: dict[str, Callable[[Path, Path], str]] = {
    "cache_file": cache_file,
    "save": save,
    "snapshot": snapshot,
    "shuffle": shuffle,
    "cache": cache,
}


def main() -> None:
    name, disk, other, *limit = sys.argv[1:]
    LIMIT.extend(map(int, limit))
    print(PROGRAMS[name](Path(disk), Path(other)))


if __name__ == "__main__":
    main()
