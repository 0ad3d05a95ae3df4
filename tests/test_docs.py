"""The pages for users: every Python block runs as printed, and every relative link leads somewhere.

The blocks of a page share one namespace, in order. An expression followed by `# → value` must give that value, NumPy
values written as plain ones (and datasets as the lists of their elements); a `print(…)  # → text` must print that text.
A block of `text` right after a Python block is what that block prints, up to the width of gaps. `…` is anything.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md",
    "docs/operators.md",
    "docs/budget.md",
    "docs/running.md",
    "docs/files.md",
    "docs/tfrecord.md",
    "docs/records.md",
    "docs/images.md",
    "docs/training.md",
    "docs/distributed.md",
    "docs/howto/map_fn.md",
    "docs/howto/from_tensor_slices.md",
    "docs/howto/out_of_memory.md",
    "docs/howto/training_steps.md",
    "docs/howto/memory_in_fit.md",
)
NOT_OURS = {".git", ".venv", "build", "node_modules"}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_ARROW = "# → "


@dataclasses.dataclass
class Block:
    """A Python block of a page, and what the page says that it prints."""

    source: str
    line: int
    printed: str | None


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    end = -1
    for fence in _FENCE.finditer(text):
        language, body = fence.groups()
        if language == "python":
            found.append(Block(body, text.count("\n", 0, fence.start()) + 2, None))
        elif language == "text" and found and not text[end : fence.start()].strip():
            found[-1].printed = body
        end = fence.end()
    return found


def run_block(block: Block, namespace: dict[str, Any]) -> None:
    """Runs a block as the file `example.py`, statement by statement."""
    printed = io.StringIO()
    lines = block.source.splitlines()
    num_checked = 0
    for statement in ast.parse(block.source).body:
        last = lines[(statement.end_lineno or 0) - 1]
        expected = last.partition(_ARROW)[2].strip() if _ARROW in last else None
        before = printed.tell()
        with contextlib.redirect_stdout(printed):
            value = run_statement(statement, namespace)
        if expected is not None:
            num_checked += 1
            found = printed.getvalue()[before:].strip() if value is None else plain(value)
            if not agrees(found, expected):
                raise AssertionError(f"{last.strip()}\ngave {found!r}")
    assert num_checked == block.source.count(_ARROW), "an arrow in the middle of a statement is not looked at"
    if block.printed is not None and not matches(printed.getvalue().strip(), block.printed.strip()):
        raise AssertionError(f"the page shows\n{block.printed}\nbut it printed\n{printed.getvalue()}")


def run_statement(statement: ast.stmt, namespace: dict[str, Any]) -> Any:
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), "example.py", "eval"), namespace)
    exec(compile(ast.Module([statement], []), "example.py", "exec"), namespace)
    return None


def agrees(found: Any, expected: str) -> bool:
    if isinstance(found, str) and matches(found, expected):
        return True
    try:
        return bool(found == ast.literal_eval(expected))
    except (SyntaxError, ValueError):
        return matches(repr(found), expected)


def matches(found: str, expected: str) -> bool:
    parts = (re.escape(re.sub(" +", " ", part)) for part in expected.split("…"))
    return re.fullmatch(".*?".join(parts), re.sub(" +", " ", found), re.DOTALL) is not None


def plain(value: Any) -> Any:
    """A value without NumPy in it."""
    if isinstance(value, ps.Dataset):
        return [plain(element) for element in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, ps.Ragged):
        return value.to_list()
    if isinstance(value, ps.Sparse):
        return value.to_dense().tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(plain(part) for part in value)
    return value


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run_as_printed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    blocks = blocks_of((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        try:
            run_block(block, namespace)
        except Exception as error:
            error.add_note(f"in the block at {page}:{block.line}")
            raise


def test_no_python_block_is_left_out() -> None:
    """One of a new page, or one that is indented or has another name, would not be run."""
    fences = re.compile(r"^[ >]*(```|~~~) *(python|py|python3|pycon)\b", re.MULTILINE | re.IGNORECASE)
    unseen = {}
    for path in markdown_files():
        text, page = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        num_run = len(blocks_of(text)) if page in PAGES else 0
        if num_found := len(fences.findall(text)) - num_run:
            unseen[page] = num_found
    assert unseen == {}


def test_what_a_wrong_page_would_do() -> None:
    """The checks above can fail."""
    for wrong in ("1 + 1  # → 3", "print('a')  # → b", "raise ValueError"):
        with pytest.raises((AssertionError, ValueError)):
            run_block(Block(wrong, 1, None), {})
    with pytest.raises(AssertionError):
        run_block(Block("print('a')", 1, "b"), {})
    run_block(Block("print('a', 1)", 1, "a …"), {})


def test_operators_page_names_every_method() -> None:
    text = (ROOT / "docs/operators.md").read_text(encoding="utf-8")
    methods = [name for name in vars(ps.Dataset) if not name.startswith("_")]
    assert [name for name in methods if f"**`{name}" not in text] == []


def test_operators_page_has_true_signatures() -> None:
    text = (ROOT / "docs/operators.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"\*\*`(\w+)\(([^`]*)\)`", text))
    assert len(shown) > 40
    for name in ("range", "zip"):  # shown as they are called
        del shown[name]
    for name, parameters in shown.items():
        namespace: dict[str, Any] = {"np": np}
        exec(f"def page({parameters}): ...", namespace)
        real = inspect.signature(getattr(ps.Dataset, name)).parameters.values()
        expected = [(p.name, p.default, p.kind) for p in real if p.name not in ("self", "name")]
        found = inspect.signature(namespace["page"]).parameters.values()
        assert [(p.name, p.default, p.kind) for p in found] == expected, name


def markdown_files() -> list[Path]:
    return [
        path
        for path in sorted(ROOT.rglob("*.md"))
        if not any(part in NOT_OURS or part.startswith(".") for part in path.relative_to(ROOT).parts[:-1])
    ]


@pytest.mark.parametrize("path", markdown_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_exist(path: Path) -> None:
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    missing = []
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        page = (path.parent / name).resolve() if name else path
        if not page.exists() or (anchor and anchor not in anchors_of(page)):
            missing.append(target)
    assert missing == []


def anchors_of(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
