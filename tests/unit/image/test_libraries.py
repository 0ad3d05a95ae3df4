"""OpenCV and simplejpeg: loaded late, missed with a clear error, run on the caller's thread, with the GIL released."""

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.image import libraries
from tests.unit.image.pictures import gifs, jpeg, photo, pngs

CONTENTS = jpeg(photo(75, 100))


def loaded_by(statement: str) -> set[str]:
    program = f"import sys, numpy as np, penstock as ps\n{statement}\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_nothing_is_loaded_before_it_is_needed() -> None:
    modules = loaded_by("")
    assert not modules & {"penstock.image", "cv2", "simplejpeg"}
    modules = loaded_by("ps.image.decode_jpeg; ps.image.convert_image_dtype(np.zeros(3, np.uint8), np.float32)")
    assert "penstock.image" in modules
    assert not modules & {"cv2", "simplejpeg", "PIL", "tensorflow"}


@pytest.mark.parametrize(
    "module,package,call",
    [
        ("cv2", "opencv-python-headless", lambda: ps.image.resize(photo(4, 4), (2, 2), "area")),
        ("simplejpeg", "simplejpeg", lambda: ps.image.decode_jpeg(CONTENTS)),
    ],
)
def test_a_missing_library_is_named(module: str, package: str, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    libraries.opencv.cache_clear()
    libraries.simplejpeg.cache_clear()
    try:
        with pytest.raises(ImportError, match=rf"ps\.image needs {package}.*pip install 'penstock\[image\]'"):
            call()
    finally:
        libraries.opencv.cache_clear()
        libraries.simplejpeg.cache_clear()


def test_opencv_runs_on_the_callers_thread() -> None:
    assert libraries.opencv().getNumThreads() == 1


def test_the_log_of_opencv_is_put_back() -> None:
    cv2 = libraries.opencv()
    level = cv2.utils.logging.getLogLevel if hasattr(cv2.utils, "logging") else cv2.getLogLevel
    before = level()
    with libraries.without_log():
        with libraries.without_log():
            assert level() == 0
        assert level() == 0
    assert level() == before


def test_there_is_no_such_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'images'"):
        ps.images  # noqa: B018


@pytest.mark.parametrize(
    "call",
    [
        lambda: ps.image.decode_jpeg(LARGE_JPEG),
        lambda: ps.image.decode_png(LARGE_PNG),
        lambda: ps.image.resize(LARGE, (1500, 1500)),
    ],
    ids=["decode_jpeg", "decode_png", "resize"],
)
def test_other_threads_run_meanwhile(call: Any) -> None:
    """While one long call runs, another thread counts: with the GIL held it could not, whatever the machine's load.

    A thread that waits for the GIL asks for it every 5 ms, and gets it between two byte codes only.
    """
    call()  # loads libraries
    counted = 0
    is_running, stop = threading.Event(), threading.Event()

    def count() -> None:
        nonlocal counted
        is_running.set()
        while not stop.wait(0.0005):
            counted += 1

    counter = threading.Thread(target=count)
    counter.start()
    assert is_running.wait(10)
    most = 0
    for _ in range(10):
        before = counted
        call()
        most = max(most, counted - before)
    stop.set()
    counter.join(10)
    assert most >= 3


LARGE = photo(1200, 1600)
LARGE_JPEG = jpeg(LARGE)
LARGE_PNG = ps.image.encode_png(LARGE)


def test_many_threads_give_the_same_pixels() -> None:
    files = [CONTENTS, jpeg(photo(40, 30), progressive=True), *pngs().values(), *gifs().values(), b"", CONTENTS[:999]]

    def outcome(contents: bytes) -> Any:
        try:
            pixels = ps.image.decode_image(contents, 3, expand_animations=False)
        except ps.errors.FormatError as error:
            return str(error)
        return ps.image.resize(pixels, (9, 8)).tobytes()

    expected = [outcome(contents) for contents in files]
    results: list[list[Any]] = [[] for _ in range(4)]

    def work(mine: list[Any]) -> None:
        for _ in range(3):
            mine.append([outcome(contents) for contents in files])

    threads = [threading.Thread(target=work, args=(mine,)) for mine in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [[expected] * 3] * 4
    assert np.isfinite(ps.image.resize(photo(4, 4), (2, 2))).all()
