"""The alg dialect through upstream MLIR, and what texts mean."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings

from cleave.dialects.alg import OPERATIONS, TensorType, tensor
from cleave.errors import CleaveError
from cleave.extents import extent
from tests.alg_programs import ALTERNATIVES, CAUSAL, EVERYTHING, graph_from, graph_op_of, parsed, printed
from tests.strategies import alg_programs


def mlir_opt() -> str:
    """The path of upstream mlir-opt; skips where the extra `mlir` is not installed."""
    found = find_spec("mlir")
    for folder in (found.submodule_search_locations or []) if found is not None else []:
        program = Path(folder) / "bin" / "mlir-opt"
        if program.exists():
            return str(program)
    pytest.skip("mlir-opt is not installed (extra `mlir`)")


def through_mlir(text: str) -> str:
    """A text in the generic form after upstream has read and printed it."""
    options = ["--allow-unregistered-dialect", "--mlir-print-op-generic", "--split-input-file"]
    done = subprocess.run([mlir_opt(), *options], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("text", [CAUSAL, EVERYTHING])
def test_a_program_survives_upstream_mlir(text: str) -> None:
    assert graph_from(through_mlir(printed(parsed(text), generic=True))) == graph_from(text)


def test_alternatives_survive_upstream_mlir() -> None:
    back = parsed(through_mlir(printed(parsed(ALTERNATIVES), generic=True)))
    assert printed(parsed(printed(back))) == printed(back)


@settings(max_examples=20)
@given(alg_programs())
def test_random_programs_survive_upstream_mlir(text: str) -> None:
    assert graph_from(through_mlir(printed(parsed(text), generic=True))) == graph_from(text)


def test_types_are_made_once() -> None:
    assert tensor(("m", "n"), "f32") is tensor(("m", "n"), "f32")
    assert isinstance(graph_op_of(CAUSAL).input_types[0], TensorType)
    assert graph_op_of(CAUSAL).input_types[0] == tensor(("b", "g", "r", "m", "d"), "f16")


def test_every_operation_says_what_it_does() -> None:
    for kind, operation in OPERATIONS.items():
        assert operation.__doc__, kind


@pytest.mark.parametrize(("written", "value"), [
    ("0.1 : f32", 0.1), ("-inf : f16", float("-inf")), ("0xFF800000 : f32", float("-inf")), ("0xFC00 : f16", float("-inf")),
    ("0x3F80 : bf16", 1.0),
    ("0x3FF8000000000000 : f64", 1.5), ("0x10 : i32", 16), ("3 : f32", 3.0), ("true : i1", True), ("1.0e-30 : f32", 1e-30),
])  # fmt: skip
def test_literals(written: str, value: float) -> None:
    graph = graph_from(
        f"""alg.graph @f axes [] () -> (!alg.tensor<[], {written.split()[-1]}>) {{
          %c = alg.constant {written}
          alg.yield %c
        }}"""
    )
    assert graph.ops[0].attr == (value,) and type(graph.ops[0].attr[0]) is type(value)


@pytest.mark.parametrize(("written", "text"), [
    ("2*N + 1", "2*N + 1"), ("N floordiv 2 mod 3", "((N) // (2)) % 3"), ('"N // 2"', "N // 2"),
    ("ceildiv(N, 2)*(N - 1 + 1)", "ceildiv(N, 2) * N"),
    ("min(N, 3)", "min(N, 3)"), ("0", "0"),
])  # fmt: skip
def test_extents(written: str, text: str) -> None:
    op = graph_op_of(f"alg.graph @f symbols [N] axes [a = {written}] () -> () {{ alg.yield }}")
    assert op.declared()[0].extent == extent(text)
    assert graph_op_of(printed(op)).declared() == op.declared()


def test_a_name_that_would_reach_code_is_refused() -> None:
    for name in ('"x: import os"', "x.y", "x$", "$x"):
        with pytest.raises(CleaveError, match=r"program.mlir:1:"):
            parsed(f"alg.graph @f axes [{name} = 4] () -> () {{ alg.yield }}")
    text = printed(graph_op_of("alg.graph @f axes [a = 4] () -> () { alg.yield }"), generic=True)
    for wrong in (text.replace('sym_name = "f"', 'sym_name = "f(): import os"'), text.replace("<a = 4>", "<a b = 4>")):
        with pytest.raises(CleaveError):
            parsed(wrong)
