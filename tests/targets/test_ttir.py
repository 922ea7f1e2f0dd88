"""TTIR as Triton's parser reads it, in the spelling of each version."""

from __future__ import annotations

from dataclasses import replace

from cleave.dialects import tt
from cleave.extents import extent
from cleave.graph import Axis, Builder, Input, Output
from cleave.runtime.compile import compile_ttir
from cleave.runtime.execute import executable
from cleave.runtime.plan import calls
from cleave.runtime.versions import ttir_cache_policy
from cleave.schedule import TARGETS, schedule
from cleave.schedule.program import For, Load, Statement
from cleave.targets.ttir import ttir_text
from tests import tile_programs


def _hinted(statement: Statement) -> Statement:
    if isinstance(statement, For):
        return replace(statement, body=tuple(_hinted(inner) for inner in statement.body))
    return replace(statement, eviction="evict_last") if isinstance(statement, Load) else statement


def test_cache_hints_reach_the_code() -> None:
    """A hint that the parser does not know would be dropped without a word."""
    program = tile_programs.matmul("f16", 16)
    kernel = program.kernels[0]
    hinted = replace(kernel, body=tuple(_hinted(statement) for statement in kernel.body))
    ready = executable(replace(program, kernels=(hinted,)))
    (func,) = [op for op in ready.module.ops if isinstance(op, tt.FuncOp)]
    (call,) = calls(ready.plan)
    compiled = compile_ttir(ready.module, func, call, "sm_90")
    assert str(compiled.asm["ttir"]).count("evict_last") == 2
    assert "evict_last" in str(compiled.asm["ptx"]) or "createpolicy" in str(compiled.asm["ptx"])


def test_spelling_by_version() -> None:
    assert ttir_cache_policy("", 1, "evict_first", 2, (3, 8)) == "cache = 1 : i32, evict = 2 : i32"
    policy = "cachePolicy = #tt.cache_policy<cache_modifier = {}, eviction_policy = {}>"
    assert ttir_cache_policy("", 1, "evict_first", 2, (3, 9)) == policy.format("none", "evict_first")
    assert ttir_cache_policy("cg", 3, "", 1, (3, 9)) == policy.format("cg", "evict_normal")


def test_negation_is_a_subtraction() -> None:
    """Triton 3.6 does not lower `arith.negf`; the kernel still compiles, and the module keeps its own spelling."""
    axes = [Axis("m", extent(64))]
    b = Builder("negated", [], axes, [Input("x", ("m",), "f32", "m")])
    graph = b.finish([Output(b.add("neg", 0), "m", "f32")])
    ready = executable(schedule([graph], {}, frozenset(), TARGETS["h200"]))
    text = ttir_text(ready.module)
    assert "arith.negf" not in text
    assert '"arith.subf"' in text
    assert "-0.0" in text
    assert any(op.name == "arith.negf" for op in ready.module.walk())
    (func,) = [op for op in ready.module.ops if isinstance(op, tt.FuncOp)]
    (call,) = calls(ready.plan)
    assert compile_ttir(ready.module, func, call, "sm_90").spills == 0
