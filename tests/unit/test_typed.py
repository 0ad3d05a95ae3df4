"""What type checkers are told of the public names. That operators give datasets is checked by mypy, on the demo."""

import ast
from pathlib import Path

import penstock as ps


def test_names_that_are_loaded_later_are_known_to_type_checkers() -> None:
    tree = ast.parse(Path(ps.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    known = {alias.name: f".{node.module}" for node in imports for alias in node.names}
    assert {name: known.get(name) for name in ps._LATER} == ps._LATER
