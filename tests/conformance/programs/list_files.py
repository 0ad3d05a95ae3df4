"""list_files: patterns, in name order when not shuffled."""

import atexit
import shutil
import tempfile
from pathlib import Path

from .program import Family

FAMILY = Family("list_files")
add = FAMILY.add

ROOT = Path(tempfile.mkdtemp(prefix="list-files-"))
atexit.register(shutil.rmtree, ROOT, ignore_errors=True)
for name in ("b.txt", "a.txt", "c.csv", "a10.txt", "a9.txt", "sub/d.txt", "sub/a.txt", ".hidden.txt"):
    (ROOT / name).parent.mkdir(exist_ok=True)
    (ROOT / name).touch()

for pattern in ("*.txt", "*", "?.txt", "[ab].txt", "*/*.txt", "sub/*", "a.txt", "a?.txt"):
    add(pattern, lambda L, p=pattern: L.Dataset.list_files(str(ROOT / p), shuffle=False), spec=True)
add(
    "several patterns",
    lambda L: L.Dataset.list_files([str(ROOT / "*.csv"), str(ROOT / "?.txt")], shuffle=False),
    spec=True,
)
add("patterns that overlap", lambda L: L.Dataset.list_files([str(ROOT / "*.txt"), str(ROOT / "a*")], shuffle=False))
add("shuffled", lambda L: L.Dataset.list_files(str(ROOT / "*"), shuffle=True, seed=3), exact=False)
add("shuffled by default", lambda L: L.Dataset.list_files(str(ROOT / "*.txt")), exact=False, seeded=False)
