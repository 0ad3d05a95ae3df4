"""The rules of the house that a linter does not know: sizes, docstrings, who may know whom, tf.data's signatures."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
import penstock.io
import penstock.ops
from penstock.plan.op import Op

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "penstock"
MOST_LINES = 500

MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = sorted(
    path
    for folder, suffixes in (("src", {".py", ".pyi"}), ("native", {".cpp", ".h"}), ("tests", {".py"}))
    for path in (ROOT / folder).rglob("*")
    if path.suffix in suffixes
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def operators() -> dict[str, type[Op]]:
    """All operator classes in ops/ and io/, by name."""
    found: dict[str, type[Op]] = {}
    for package in (penstock.ops, penstock.io):
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            module = importlib.import_module(info.name)
            for name, value in vars(module).items():
                if isinstance(value, type) and issubclass(value, Op) and value.__module__ == info.name:
                    found[name] = value
    return found


OPERATORS = operators()
# What the optimizer, other operators and classes such as `TextLineDataset` make; users do not write them.
INTERNAL = {
    "CsvRecords",
    "FileShard",
    "FixedLengthRecords",
    "FromMapStyle",
    "FromRows",
    "FromStack",
    "ParseExamples",
    "Read",
    "TFRecords",
    "TextLines",
}


def file_of(op: type[Op]) -> Path:
    return Path(inspect.getfile(op))


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 50
    assert len(SOURCES) > 100
    assert len(OPERATORS) > 30
    assert set(OPERATORS) >= INTERNAL | {"Map", "Batch", "Shuffle", "FromTensorSlices", "Range"}


# --- files ---


def test_files_are_short() -> None:
    long = {name_of(path): n for path in SOURCES if (n := len(path.read_text().splitlines())) >= MOST_LINES}
    assert long == {}


def test_modules_open_with_a_docstring() -> None:
    silent = [name_of(path) for path in SOURCES if path.suffix == ".py" and not ast.get_docstring(parsed(path))]
    assert silent == []


def test_the_first_line_of_a_docstring_is_one_sentence() -> None:
    for path in MODULES:
        first = (ast.get_docstring(parsed(path)) or "").splitlines()[0]
        assert first.endswith((".", ":")), f"{name_of(path)}: {first}"


def public_names(tree: ast.Module) -> list[str]:
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def declared_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and [t.id for t in node.targets if isinstance(t, ast.Name)] == ["__all__"]:
            return list(ast.literal_eval(node.value))
    return None


def test_modules_say_what_is_public() -> None:
    missing = [name_of(path) for path in MODULES if public_names(parsed(path)) and declared_names(parsed(path)) is None]
    assert missing == []


def test_what_is_declared_public_exists() -> None:
    for path in MODULES:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = importlib.import_module(".".join(part for part in parts if part != "__init__"))
        for name in getattr(module, "__all__", []):
            assert hasattr(module, name), f"{name_of(path)}: {name}"


def test_names_that_say_nothing_are_not_used() -> None:
    nothing = re.compile(r"(utils?|helpers?|common|base|misc|manager|.*_v\d+)$")
    assert [name_of(path) for path in MODULES if nothing.match(path.stem)] == []


# --- the map ---


def words_by_folder() -> dict[str, set[str]]:
    """What the map of the package says of each folder; "" is the package itself."""
    words: dict[str, set[str]] = {}
    folder = ""
    for line in (PACKAGE / "README.md").read_text().split("```")[1].splitlines():
        if found := re.match(r" {0,2}(\w+)/", line):
            folder = found[1]
        elif line and not line[0].isspace():
            folder = ""
        words.setdefault(folder, set()).update(word.lower() for word in re.findall(r"\w+", line))
    return words


def test_every_module_is_on_the_map() -> None:
    """Operators and rules have a file each, of the same name, and are not listed again."""
    listed = {file_of(op) for op in OPERATORS.values() if file_of(op).parent.name == "ops"}
    listed |= {PACKAGE / "optimize" / f"{rule}.py" for rule in rules()}
    words = words_by_folder()
    missing = [
        name_of(path)
        for path in MODULES
        if path not in listed and path.stem != "__init__"
        if path.stem not in words.get("" if path.parent == PACKAGE else path.parent.name, set())
    ]
    assert missing == []


# --- operators ---


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_operators_tell_what_they_hold_and_what_they_save(name: str) -> None:
    text = inspect.getdoc(OPERATORS[name]) or ""
    assert re.search(r"^Memory: \S.*", text, re.M), "a line `Memory: …`"
    assert re.search(r"^State: \S.*", text, re.M), "a line `State: …`"
    if name not in INTERNAL:
        assert ">>> " in text, "an example that runs"


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - INTERNAL))
def test_operators_document_their_arguments(name: str) -> None:
    op = OPERATORS[name]
    method = getattr(ps.Dataset, op.verb())
    text = inspect.getdoc(method) or ""
    assert [a for a in arguments_of(method) if not re.search(rf"\b{a}\b", text)] == []


def files_that_test(name: str) -> list[str]:
    """Files that test an operator: one of its own, or programs that write it."""
    op = OPERATORS[name]
    folder = file_of(op).parent.name
    own = ROOT / "tests" / "unit" / folder / f"test_{file_of(op).stem}.py"
    method = op.verb()
    written = re.compile(rf"\.{method}\(|\b{name}\b")
    programs = [*(ROOT / "tests" / "conformance").rglob("*.py"), *(ROOT / "tests" / "unit" / "optimize").glob("*.py")]
    return [
        name_of(path)
        for path in [own, *programs]
        if path.exists() and (path == own or written.search(path.read_text()))
    ]


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_operators_are_tested(name: str) -> None:
    assert files_that_test(name)


def test_each_operator_has_a_file_of_its_own_in_ops() -> None:
    files: dict[Path, list[str]] = {}
    for name, op in OPERATORS.items():
        if file_of(op).parent.name == "ops":
            files.setdefault(file_of(op), []).append(name)
    assert {name_of(path): names for path, names in files.items() if len(names) > 1} == {}
    for path, (name,) in files.items():
        assert path.stem == re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


# --- who may know whom ---


def imported_names(path: Path) -> list[tuple[str, str]]:
    """(module, name) of what a file imports from modules of the package."""
    return [
        (node.module or "", alias.name)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("penstock"))
        for alias in node.names
    ]


def test_operators_do_not_import_each_other() -> None:
    offences = []
    for folder in ("ops", "io"):
        for path in sorted((PACKAGE / folder).glob("*.py")):
            own = {name for name, op in OPERATORS.items() if file_of(op) == path}
            offences += [f"{name_of(path)}: {name}" for _, name in imported_names(path) if name in set(OPERATORS) - own]
    assert offences == []


def rules() -> set[str]:
    return {path.stem for path in (PACKAGE / "optimize").glob("*.py")} - {"__init__", "driver"}


def test_rules_do_not_import_each_other() -> None:
    assert len(rules()) >= 6
    for rule in rules():
        known = {module.split(".")[-1] for module, _ in imported_names(PACKAGE / "optimize" / f"{rule}.py")}
        assert not known & rules(), rule


def test_every_rule_is_in_a_pass_and_has_a_test() -> None:
    from penstock.optimize import PASSES

    assert {rule.__name__ for group in PASSES for rule in group} == rules()
    for rule in rules():
        assert (ROOT / "tests" / "unit" / "optimize" / f"test_{rule}.py").exists(), rule


def test_backends_do_not_import_each_other_but_for_what_they_share() -> None:
    backends = {path.stem for path in (PACKAGE / "runtime" / "backends").glob("*.py")} - {"__init__"}
    classes = {"InlineCursor", "ParallelCursor", "AheadCursor", "FillingCursor"}
    for backend in backends:
        names = {name for _, name in imported_names(PACKAGE / "runtime" / "backends" / f"{backend}.py")}
        built_on = {"AheadCursor"} if backend == "filling" else set()  # one way of working ahead
        assert not names & classes - built_on, backend


def classes_asked_for(node: ast.Call) -> list[str]:
    """The class names in the second argument of an isinstance or issubclass call."""
    if not isinstance(node.func, ast.Name) or node.func.id not in ("isinstance", "issubclass") or len(node.args) != 2:
        return []
    return [part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)]


def test_nobody_asks_for_an_operators_class_outside_its_own_file() -> None:
    """Ask traits: a class asked for elsewhere turns one change into five."""
    offences = []
    for path in MODULES:
        own = {name for name, op in OPERATORS.items() if file_of(op) == path}
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call):
                asked = set(classes_asked_for(node)) & set(OPERATORS) - own
                offences += [f"{name_of(path)}:{node.lineno}: {name}" for name in asked]
            if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.Eq)) for op in node.ops):
                sides = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                if "type" in sides and sides & set(OPERATORS) - own:
                    offences.append(f"{name_of(path)}:{node.lineno}: {ast.unparse(node)}")
    assert offences == []


def test_the_facade_imports_operators_and_does_not_look_into_them() -> None:
    facade = (PACKAGE / "dataset.py").read_text()
    for name in sorted(set(OPERATORS) - INTERNAL):
        assert re.search(rf"\b{name}\b", facade), f"{name} is not on the facade"


# --- tf.data's signatures ---

# Arguments of tf.data that we do not have, and why.
LEFT_OUT = {
    "map": {"synchronous", "use_unbounded_threadpool"},  # how TensorFlow runs its own threads
    "load": {"wait"},  # for what several machines write together
}
# Defaults that differ: (tf.data's, ours); see docs/differences.md.
OTHER_DEFAULTS: dict[tuple[str, str], tuple[Any, Any]] = {
    ("shuffle", "buffer_size"): (inspect.Parameter.empty, None),
    ("shuffle", "reshuffle_each_iteration"): (True, None),  # None means True
}
# docs/differences.md: output_signature and args come first.
OTHER_ORDER = {"from_generator"}
NOT_YET = {"fingerprint"}


def arguments_of(function: Any) -> dict[str, inspect.Parameter]:
    """Arguments by name but for `self` and `name`, which every method of ours takes."""
    return {n: p for n, p in inspect.signature(function).parameters.items() if n not in ("self", "name", "kwargs")}


def same_default(theirs: Any, ours: Any) -> bool:
    return theirs is ours or theirs == ours or getattr(theirs, "as_numpy_dtype", theirs) == ours


@pytest.fixture(scope="module")
def tf_dataset() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    tf = importlib.import_module("tensorflow")
    return tf.data.Dataset


def test_signatures_are_tf_datas(tf_dataset: Any) -> None:
    checked = 0
    for method in sorted(set(dir(tf_dataset)) & set(dir(ps.Dataset))):
        if method.startswith("_") or not callable(getattr(tf_dataset, method)):
            continue
        checked += 1
        theirs, ours = arguments_of(getattr(tf_dataset, method)), arguments_of(getattr(ps.Dataset, method))
        expected = [name for name in theirs if name not in LEFT_OUT.get(method, set())]
        shared = [name for name in ours if name in theirs]
        extra = [p for name, p in ours.items() if name not in theirs]
        assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in extra), f"{method}: {extra}"
        if method in OTHER_ORDER:
            assert sorted(shared) == sorted(expected), method
            continue
        assert shared == expected, method
        for name in expected:
            pair = OTHER_DEFAULTS.get((method, name), (theirs[name].default, theirs[name].default))
            assert theirs[name].default == pair[0], f"{method}({name}): tf.data has changed"
            assert same_default(pair[1], ours[name].default), f"{method}({name}={ours[name].default!r})"
    assert checked > 35


def test_every_method_of_tf_data_is_there(tf_dataset: Any) -> None:
    missing = {name for name in dir(tf_dataset) if not name.startswith("_") and not hasattr(ps.Dataset, name)}
    assert missing == NOT_YET


def test_no_argument_of_the_optimizers_is_shown_to_users() -> None:
    for name, op in OPERATORS.items():
        method = op.verb()
        shown = set(arguments_of(getattr(ps.Dataset, method))) if hasattr(ps.Dataset, method) else set()
        assert not shown & {"elastic", "into_slot", "whole_blocks", "by_number", "drawn", "store"}, name


def test_methods_carry_the_documentation_of_their_operators() -> None:
    for name in sorted(set(OPERATORS) - INTERNAL):
        op = OPERATORS[name]
        method = getattr(ps.Dataset, op.verb())
        written_by_hand = method.__code__.co_name == method.__name__
        assert written_by_hand or method.__doc__ == op.__doc__


def test_every_method_takes_a_name() -> None:
    """tf.data's programs give names to operators; they mean nothing here."""
    dataset = (
        ps.Dataset.range(4, name="numbers").map(lambda x: x, name="same").take(3, name="first").batch(2, name="pairs")
    )
    assert [batch.tolist() for batch in dataset] == [[0, 1], [2]]


def test_dir_shows_public_names_only() -> None:
    import penstock

    assert dir(penstock) == sorted(penstock.__all__)
    assert all(hasattr(penstock, name) for name in dir(penstock))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_locks_of_modules_are_free_in_forked_children(path: Path) -> None:
    made = [node.value for node in parsed(path).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    names = [ast.unparse(value.func) for value in made if isinstance(value, ast.Call)]
    assert not [name for name in names if name.startswith("threading.") and name.endswith(("Lock", "Condition"))]
