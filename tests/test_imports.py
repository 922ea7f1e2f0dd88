"""What may import what: search and scheduler know no IR, dialects no pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
IR = ("xdsl", "cleave.assembly", "cleave.bridge", "cleave.dialects", "cleave.lowering", "cleave.passes", "cleave.targets")


def imported(path: Path, module: str) -> Iterator[str]:
    """The modules that a file imports, anywhere in it, and the names it takes from them as if they were modules."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))


def test_relative_imports_are_found() -> None:
    path = ROOT / "cleave" / "search" / "rules" / "sums.py"
    assert {"cleave.search.convert", "cleave.search.rules.limits.Limits"} <= set(imported(path, "cleave.search.rules.sums"))


@pytest.mark.parametrize(
    ("folder", "package", "refused"),
    [
        ("cleave/search", "cleave.search", IR),
        ("cleave/schedule", "cleave.schedule", IR),
        ("cleave/algebra", "cleave.algebra", IR),
        ("dialects", "cleave.dialects", ("cleave.passes",)),
    ],
)
def test_none_imports_what_is_above_it(folder: str, package: str, refused: tuple[str, ...]) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        parts = [part for part in path.relative_to(ROOT / folder).with_suffix("").parts if part != "__init__"]
        for name in imported(path, ".".join([package, *parts])):
            assert not any(name == other or name.startswith(f"{other}.") for other in refused), f"{path}: {name}"


def test_every_file_of_passes_is_a_pass() -> None:
    from cleave.universe import PASSES

    files = {path.stem for path in (ROOT / "passes").glob("*.py")} - {"__init__"}
    assert files == {name.replace("-", "_") for name in PASSES}
