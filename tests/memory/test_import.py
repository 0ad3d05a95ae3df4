"""`import penstock` is light: NumPy, the standard library, and nothing that only some users need."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys
import numpy
before = set(sys.modules)
import penstock
assert penstock.Dataset.range(3).map(lambda x: x + 1).batch(2) is not None
print(json.dumps(sorted(set(sys.modules) - before)))
"""

HEAVY = {
    "asyncio",
    "cloudpickle",
    "concurrent.futures.process",
    "cv2",
    "h5py",
    "hypothesis",
    "jax",
    "keras",
    "logging.config",
    "multiprocessing",
    "numpy.testing",
    "optree",
    "pandas",
    "PIL",
    "psutil",
    "pyarrow",
    "pytest",
    "ray",
    "rich",
    "scipy",
    "sqlite3",
    "tensorflow",
    "torch",
    "unittest",
    "urllib.request",
    "zarr",
}


def loaded() -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    return list(json.loads(done.stdout))


def test_import_loads_nothing_heavy() -> None:
    modules = loaded()
    assert "penstock.dataset" in modules
    heavy = [name for name in modules if name in HEAVY or name.split(".")[0] in HEAVY]
    assert heavy == []


def test_import_loads_only_itself_and_the_standard_library() -> None:
    foreign = {name.split(".")[0] for name in loaded()} - set(sys.stdlib_module_names) - {"penstock"}
    # The editable install of the build backend brings a finder of its own.
    foreign -= {name for name in foreign if name.startswith(("_penstock", "__editable__"))}
    assert foreign <= {"numpy"}, foreign


def test_import_does_not_wait_for_the_codecs() -> None:
    modules = loaded()
    assert "penstock.io" in modules
    assert not {f"penstock.io.{name}" for name in ("example", "features", "tfrecord_writer")} & set(modules)
