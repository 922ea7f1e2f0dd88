"""
Every operation of every dialect survives printing and reading, in its own form and in generic form.

The programs are those of the dialects' lit tests, so an operation without an example there fails here. Where upstream
`mlir-opt` is installed (the `mlir` extra), generic text goes through it too.
"""

import importlib.util
import subprocess
from io import StringIO
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.universe import XDSL_UNIVERSE

from cleave.parsing import parse_module, verify
from cleave.universe import CLEAVE_UNIVERSE

EXAMPLES = Path(__file__).parent.parent.parent / "lit_tests" / "dialects"
DIALECTS = sorted(CLEAVE_UNIVERSE.all_dialects)


def parsed(text: str) -> ModuleOp:
    ctx = Context()
    for universe in (XDSL_UNIVERSE, CLEAVE_UNIVERSE):
        for name, dialect in universe.all_dialects.items():
            ctx.register_dialect(name, dialect)
    module = parse_module(ctx, text, "in.mlir")
    verify(module)
    return module


def printed(module: ModuleOp, generic: bool = False) -> str:
    out = StringIO()
    Printer(stream=out, print_generic_format=generic).print_op(module)
    return out.getvalue()


def examples(dialect: str) -> list[ModuleOp]:
    return [parsed(chunk) for chunk in (EXAMPLES / f"{dialect}.mlir").read_text().split("// -----")]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_operation_has_an_example(dialect: str) -> None:
    shown = {op.name for module in examples(dialect) for op in module.walk()}
    missing = sorted({op.name for op in CLEAVE_UNIVERSE.all_dialects[dialect]().operations} - shown)
    assert not missing


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_printed_text_reads_back(dialect: str, generic: bool) -> None:
    for module in examples(dialect):
        again = parsed(printed(module, generic))
        assert again.is_structurally_equivalent(module)
        assert printed(again) == printed(module)


def mlir_opt() -> Path | None:
    spec = importlib.util.find_spec("mlir")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / "bin" / "mlir-opt"
        if path.exists():
            return path
    return None


@pytest.mark.skipif(mlir_opt() is None, reason="upstream mlir-opt is not installed (pip install 'cleave[mlir]')")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_upstream_reads_generic_text(dialect: str) -> None:
    for module in examples(dialect):
        command = [str(mlir_opt()), "--allow-unregistered-dialect", "--mlir-print-op-generic"]
        done = subprocess.run(command, input=printed(module, generic=True), text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert parsed(done.stdout).is_structurally_equivalent(module)
