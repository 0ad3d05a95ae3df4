"""Spill spaces: nothing is left behind, nothing of others is touched, limits hold."""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, SpillError
from penstock.memory.ipc import IpcWriter
from penstock.memory.spill import LastingSpill, SpillSpace, _lies_in_memory, _look_again_s, default_directory

OWNER = """
import sys, time
from penstock.memory.spill import SpillSpace
space = SpillSpace(sys.argv[1])
open(space.new_path(".arrow"), "w").write("x" * 100)
print(space.directory, flush=True)
time.sleep(60)
"""


def made(space: SpillSpace) -> str:
    path = space.new_path(".arrow")
    Path(path).write_text("x")
    return path


def test_the_directory_is_made_with_the_first_file_and_removed_with_the_last(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path))
    assert os.listdir(tmp_path) == []
    paths = [made(space), made(space)]
    assert len(set(paths)) == 2
    (name,) = os.listdir(tmp_path)
    assert name.startswith(f"penstock-spill-{os.getpid()}-")
    assert os.stat(tmp_path / name).st_mode & 0o777 == 0o700
    space.close()
    space.close()
    assert os.listdir(tmp_path) == []
    with pytest.raises(SpillError, match="removed when the run was closed"):
        space.new_path()


def test_a_space_that_is_collected_is_removed(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path))
    made(space)
    del space
    assert os.listdir(tmp_path) == []


def test_a_space_is_removed_at_exit(tmp_path: Path) -> None:
    program = OWNER.replace("time.sleep(60)", "")
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60, capture_output=True)
    assert os.listdir(tmp_path) == []


def test_a_forked_child_leaves_the_space_alone(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path))
    path = made(space)
    program = """
import os, sys
from penstock.memory.spill import SpillSpace
space = SpillSpace(sys.argv[1])
path = space.new_path()
open(path, "w").close()
if os.fork() == 0:
    space.close()
    sys.exit(0)  # with all that is done at exit
os.wait()
assert os.path.exists(path)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    assert os.path.exists(path)
    space.close()
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        left = owner.stdout.readline().strip()
        space = SpillSpace(str(tmp_path))
        made(space)
        assert os.path.exists(left), "its owner lives"
        space.close()
        owner.send_signal(signal.SIGKILL)
        owner.wait(timeout=60)
    assert os.listdir(left)
    space = SpillSpace(str(tmp_path))
    made(space)
    assert not os.path.exists(left)
    space.close()
    assert os.listdir(tmp_path) == []


def test_a_run_that_does_not_spill_removes_what_was_left(tmp_path: Path) -> None:
    plain = ps.Dataset.range(10).with_options(ps.Options(spill_dir=tmp_path))
    for dataset in (plain, plain.cache(), plain.shuffle(5)):
        left = orphan(tmp_path)
        _look_again_s.clear()
        list(dataset)
        assert not left.exists()


def test_short_runs_do_not_look_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("penstock.memory.spill.time.monotonic", lambda: now)
    looks = []

    def look(parent: str) -> None:
        nonlocal now
        looks.append(parent)
        now += 0.01

    monkeypatch.setattr("penstock.memory.spill._remove_orphans", look)
    monkeypatch.setattr("penstock.memory.spill._look_again_s", {})
    for later_s, num_looks in ((0, 1), (0.5, 1), (0.6, 2), (0.9, 2), (0.2, 3)):
        now += later_s
        SpillSpace(str(tmp_path)).remove_orphans()
        assert len(looks) == num_looks
    SpillSpace().remove_orphans()
    assert looks[-1] == default_directory()


def test_a_directory_that_cannot_be_looked_into_is_no_error_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.memory.spill._look_again_s", {})
    monkeypatch.setattr("penstock.memory.spill.default_directory", lambda: "/nowhere/at/all")
    assert list(ps.Dataset.range(3)) == [0, 1, 2]


def orphan(parent: Path, name: str = "penstock-spill-1-abc") -> Path:
    """What a process that died left: the id may be somebody else's by now."""
    space = SpillSpace(str(parent))
    lock = (Path(space.directory) / "lock").read_bytes()
    space.close()
    path = parent / name
    path.mkdir(mode=0o700)
    (path / "lock").write_bytes(lock)
    (path / "000001.arrow").write_text("x")
    return path


def clean(parent: Path) -> None:
    space = SpillSpace(str(parent))
    made(space)
    space.close()


def test_only_what_is_ours_is_removed(tmp_path: Path) -> None:
    assert orphan(tmp_path).exists()
    clean(tmp_path)
    assert os.listdir(tmp_path) == []

    without_lock = orphan(tmp_path, "penstock-spill-2-abc")
    (without_lock / "lock").unlink()
    other_lock = orphan(tmp_path, "penstock-spill-3-abc")
    (other_lock / "lock").write_text("mine")
    other_name = orphan(tmp_path, "spill-4-abc")
    target = orphan(tmp_path, "kept")
    (tmp_path / "penstock-spill-5-abc").symlink_to(target)
    (tmp_path / "penstock-spill-6-abc").write_text("a file")
    clean(tmp_path)
    for path in (without_lock, other_lock, other_name, target):
        assert (path / "000001.arrow").exists()
    assert (tmp_path / "penstock-spill-6-abc").exists()


def test_foreign_files_in_a_directory_of_ours_stay(tmp_path: Path) -> None:
    path = orphan(tmp_path)
    (path / "notes.txt").write_text("important")
    (path / "folder").mkdir()
    clean(tmp_path)
    assert sorted(os.listdir(path)) == ["folder", "lock", "notes.txt"]


def test_a_lock_that_somebody_holds_protects_the_directory(tmp_path: Path) -> None:
    path = orphan(tmp_path)
    with open(path / "lock", "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clean(tmp_path)
        assert (path / "000001.arrow").exists()
    clean(tmp_path)
    assert not path.exists()


def test_many_clean_up_at_once(tmp_path: Path) -> None:
    for i in range(20):
        orphan(tmp_path, f"penstock-spill-{i}-abc")
    start = threading.Barrier(8)

    def work(_: int) -> SpillSpace:
        space = SpillSpace(str(tmp_path))
        start.wait(timeout=60)
        made(space)
        return space

    with ThreadPoolExecutor(8) as pool:
        spaces = list(pool.map(work, range(8)))
    assert len(os.listdir(tmp_path)) == 8
    assert all(os.path.exists(os.path.join(space.directory, "000001.arrow")) for space in spaces)
    for space in spaces:
        space.close()
    assert os.listdir(tmp_path) == []


def test_bytes_are_counted_and_limited(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path), limit_bytes=1000)
    space.reserve(600)
    space.reserve(400)
    space.release(700)
    assert (space.used_bytes, space.peak_bytes) == (300, 1000)
    text = rf"asked for 800 B more on disk and 300 B of the limit of 1 kB are in use in {tmp_path}.*spill_limit=2_000 "
    with pytest.raises(SpillError, match=text):
        space.reserve(800)
    assert space.used_bytes == 300
    with pytest.raises(SpillError, match=r"use spill_limit=10_000 or more \(twice .* is not known\)"):
        space.reserve(5000)
    space.expects = lambda: 100_000
    with pytest.raises(SpillError, match=r"use spill_limit=150_000 or more \(for all that its stages"):
        space.reserve(5000)
    space.close()


def test_a_full_disk_is_told_apart_from_other_errors(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path))
    text = r"no room to write 5 kB to .*: No space left on device, \S+ \S+ are free"
    with pytest.raises(SpillError, match=text), space.writing(5000):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    text = rf"cannot write 5 kB to {tmp_path}/penstock-spill-.*: Read-only file system; this run holds 300 B.*spill_dir"
    space.reserve(300)
    with pytest.raises(SpillError, match=text), space.writing(5000):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    space.close()


def test_a_directory_that_somebody_removed_is_named_with_what_was_in_it(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path))
    writer = IpcWriter(space.new_path(".arrow"), space=space)
    writer.write([np.zeros(1000)])
    shutil.rmtree(space.directory)
    text = rf"the spill directory {space.directory} was removed by somebody else, with 8\.\d+ kB"
    for use in (lambda: IpcWriter(space.new_path(".arrow"), space=space), writer.reader):
        with pytest.raises(SpillError, match=text):
            use()
    writer.discard()
    assert space.used_bytes == 0
    space.close()


def test_what_outlives_a_run_is_written_elsewhere_if_its_directory_was_removed(tmp_path: Path) -> None:
    lasting, run = LastingSpill(), SpillSpace(str(tmp_path), limit_bytes=1000)
    lasting.use_in(run)
    first = lasting.space()
    first.reserve(600)
    shutil.rmtree(first.directory)
    second = lasting.space()
    assert second.directory != first.directory
    assert run.total_bytes == 600
    with pytest.raises(SpillError, match=r"spill_limit=2_000"):
        second.reserve(500)


def test_directories_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match=rf"spill_dir: {tmp_path}/none does not exist"):
        SpillSpace(str(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadArgument, match=r"spill_dir: .*/file is not a directory"):
        SpillSpace(str(tmp_path / "file"))


def test_a_directory_that_went_away_is_named(tmp_path: Path) -> None:
    parent = tmp_path / "gone"
    parent.mkdir()
    space = SpillSpace(str(parent))
    parent.rmdir()
    with pytest.raises(SpillError, match=rf"cannot make a spill directory in {parent}: No such file.*spill_dir"):
        space.new_path()


def test_a_directory_that_nobody_may_write_to_is_named() -> None:
    with pytest.raises((BadArgument, SpillError), match=r"/proc/self"):  # not even root
        SpillSpace("/proc/self").new_path()


def test_memory_is_no_place_to_spill_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/sdb /tmp/disk ext4 rw 0 0\nramfs /a\\040b ramfs rw 0 0\n"
    )
    found = {path: _lies_in_memory(path, str(mounts)) for path in ("/x", "/tmp/x", "/tmpx", "/tmp/disk/x", "/a b/c")}
    assert found == {"/x": False, "/tmp/x": True, "/tmpx": False, "/tmp/disk/x": False, "/a b/c": True}
    assert not _lies_in_memory("/tmp", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", "/dev/shm")
    assert default_directory() == "/var/tmp"


def test_the_limit_is_on_a_run_and_its_caches_together(tmp_path: Path) -> None:
    run = SpillSpace(str(tmp_path), limit_bytes=1000)
    cache = LastingSpill()
    cache.use_in(run)
    run.reserve(300)
    cache.space().reserve(500)
    assert (run.used_bytes, cache.used_bytes, run.total_bytes) == (300, 500, 800)
    text = rf"300 B more on disk and 800 B of the limit of 1 kB are in use in {tmp_path}.*\(500 B by caches\).*=2_000 "
    for space in (run, cache.space()):
        with pytest.raises(SpillError, match=text):
            space.reserve(300)
    assert run.total_bytes == 800
    run.release(300)
    cache.space().reserve(500)
    run.close()


def test_what_outlives_a_run_counts_in_the_next_and_in_all_that_are_open(tmp_path: Path) -> None:
    cache = LastingSpill()
    first = SpillSpace(str(tmp_path), limit_bytes=1000)
    cache.use_in(first)
    cache.space().reserve(700)
    first.close()
    cache.space().reserve(500)  # no run is open that could mind
    small, large = SpillSpace(str(tmp_path), limit_bytes=1300), SpillSpace(str(tmp_path), limit_bytes=9000)
    for run in (small, large):
        cache.use_in(run)
        assert run.total_bytes == 1200
    with pytest.raises(SpillError, match=r"1\.2 kB of the limit of 1\.3 kB"):
        cache.space().reserve(200)
    small.close()
    cache.space().reserve(200)
    large.close()


def test_what_outlives_a_run_goes_where_the_last_run_says(tmp_path: Path) -> None:
    cache = LastingSpill()
    for name in "ab":
        (tmp_path / name).mkdir()
        cache.use_in(SpillSpace(str(tmp_path / name)))
        assert os.path.dirname(cache.space().directory) == str(tmp_path / name)
        cache.space().reserve(10)
    assert cache.used_bytes == 20


def test_the_limit_holds_for_threads_that_write_to_both(tmp_path: Path) -> None:
    run = SpillSpace(str(tmp_path), limit_bytes=1000)
    cache = LastingSpill()
    cache.use_in(run)

    def fill(space: SpillSpace) -> None:
        with contextlib.suppress(SpillError):
            while True:
                space.reserve(1)

    threads = [threading.Thread(target=fill, args=(space,)) for space in (run, cache.space()) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.total_bytes == 1000
