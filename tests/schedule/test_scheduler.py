"""Programs of the scheduler against the reference, and the shapes of their kernels."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cleave.bridge.sched import module_of
from cleave.graph import Graph, Input, Symbol
from cleave.schedule import ScheduleOptions
from cleave.schedule.program import Dot, LibraryCall, Load, walk

from .programs import H200, Sketch, agrees, attention, candidates, linear_attention, loops, norm_linear, scheduled

DYNAMIC = (Symbol("B", (2,)), Symbol("M", (4,)), Symbol("N", (512,)))
GROUPED = attention(b="B", g="2", r="4", m="M", n="N", symbols=DYNAMIC)


@pytest.mark.parametrize("mask", ["", "causal", "window", "dead", "input"])
def test_attention_is_one_kernel_with_one_loop_over_keys(mask: str) -> None:
    """The loop carries the level of the shift, the accumulator and the sum."""
    graph = attention(m="50", n="70", mask=mask)
    program = scheduled(graph)
    agrees(graph, program)
    (kernel,) = program.kernels
    (loop,) = loops(kernel)
    assert loop.dim == "n"
    assert sorted(entry.inner.name for entry in loop.carried) == ["acc", "level", "sum"]
    assert sum(isinstance(statement, Dot) for statement in walk(kernel.body)) == 2


def test_large_logits_stay_finite() -> None:
    graph = attention(m="20", n="300", mask="causal")
    agrees(graph, scheduled(graph), scale=100.0, tolerance=1e-7)


def test_a_dead_row_is_zero_and_its_log_of_sums_minus_infinity() -> None:
    """`dead` masks every key of row 0."""
    graph = attention(m="20", n="40", mask="dead", lse=True)
    agrees(graph, scheduled(graph))


@pytest.mark.parametrize("d", [64, 80, 96, 128, 256])
def test_head_dimensions_are_padded(d: int) -> None:
    graph = attention(m="1", n="33", d=str(d), e=str(d), mask="causal")
    agrees(graph, scheduled(graph))


@pytest.mark.parametrize("n", [1, 3, 17, 300, 1023])
def test_ragged_keys(n: int) -> None:
    graph = attention(m="5", n=str(n), d="32", e="32")
    agrees(graph, scheduled(graph))


def test_query_heads_of_a_group_share_a_dot() -> None:
    """The rows and heads that read the same keys are packed into one side of at least 16 rows."""
    graph = attention(b="2", g="2", r="4", m="3", n="70", mask="causal")
    program = scheduled(graph)
    agrees(graph, program)
    (kernel,) = program.kernels
    assert any(dim.dim == "r_m" and dim.tile >= 16 for dim in kernel.grid)
    assert any(isinstance(statement, Dot) for statement in walk(kernel.body))


@pytest.mark.parametrize(
    "sizes",
    [{"B": 1, "M": 4, "N": 33}, {"B": 2, "M": 1, "N": 1}, {"B": 1, "M": 17, "N": 130}, {"B": 0, "M": 2, "N": 5}, {"B": 1, "M": 5, "N": 0}],
)
def test_one_program_serves_all_sizes(sizes: Mapping[str, int]) -> None:
    agrees(GROUPED, scheduled(GROUPED, {"B": 2, "M": 4, "N": 512}, ("B", "M", "N")), sizes)


def test_known_divisibility_drops_the_tail_mask() -> None:
    """With n a multiple of 128 nothing of k or v is checked along n."""
    for multiple, wanted in ((128, False), (1, True)):
        graph = attention(m="64", n="N", symbols=(Symbol("N", (512,), multiple_of=multiple),))
        program = scheduled(graph, {"N": 512}, ("N",))
        loads = [statement for statement in walk(program.kernels[0].body) if isinstance(statement, Load)]
        assert any("n" in load.check for load in loads) == wanted
        agrees(graph, program, {"N": 256})


@pytest.mark.parametrize("gated", [False, True])
def test_norm_and_linear_are_one_loop(gated: bool) -> None:
    """The sum of squares and the dots share the loop over k."""
    graph = norm_linear(gated=gated)
    program = scheduled(graph)
    agrees(graph, program)
    (kernel,) = program.kernels
    (loop,) = loops(kernel)
    assert loop.dim == "k" and len(loop.carried) == (3 if gated else 2)


def test_reassociated_attention_never_forms_the_square() -> None:
    graph = linear_attention(m="1000", n="2000")
    program = scheduled(graph)
    for kernel in program.kernels:
        for statement in walk(kernel.body):
            if isinstance(statement, Dot):
                assert {"m", "n"} != set(statement.out.type.names)
    small = linear_attention(m="40", n="70")
    agrees(small, scheduled(small))


def _rows() -> Graph:
    s = Sketch("rows", "m=30 k=70", [Input("x", ("m", "k"), "f16", "m k")])
    x = s.cast(0, "f32")
    s.output(s.reduce("sum", x, "k"), "m", "f32")
    s.output(s.reduce("max", x, "k"), "m", "f32")
    return s.graph()


def _normalised_rows() -> Graph:
    s = Sketch("weights", "m=30 k=70", [Input("x", ("m", "k"), "f16", "m k")])
    x = s.cast(0, "f32")
    top = s.shift(x, "k")
    p = s.op("exp", s.op("sub", x, top))
    z = s.reduce("sum", p, "k")
    s.output(s.op("div", p, z, attr=("guarded",)), "m k")
    s.output(s.op("add", s.op("log", z), top), "m", "f32")
    return s.graph()


def _elementwise() -> Graph:
    s = Sketch("scale", "b=3 m=30 k=70", [Input("x", ("b", "m", "k"), "f16", "m (b k)"), Input("y", ("k",), "f32", "k")])
    s.output(s.op("silu", s.op("mul", s.cast(0, "f32"), 1)), "b m k")
    return s.graph()


def _matmul(dtype: str) -> Graph:
    s = Sketch("matmul", "m=50 k=70 c=90", [Input("x", ("m", "k"), dtype, "m k"), Input("w", ("k", "c"), dtype, "c k")])
    s.output(s.contract(0, 1, over="k"), "m c", dtype)
    return s.graph()


def _matvec() -> Graph:
    s = Sketch("matvec", "m=50 k=70", [Input("x", ("k",), "f16", "k"), Input("w", ("m", "k"), "f16", "m k")])
    s.output(s.contract(0, 1, over="k"), "m")
    return s.graph()


@pytest.mark.parametrize(
    "graph", [_rows(), _normalised_rows(), _elementwise(), _matmul("f16"), _matmul("f32"), _matvec()], ids=lambda graph: graph.name
)
def test_small_graphs_are_one_kernel(graph: Graph) -> None:
    program = scheduled(graph)
    assert len(program.kernels) == 1
    agrees(graph, program)


def test_a_library_may_take_plain_products() -> None:
    """Only when asked, and only a product of two buffers of the result's type."""
    graph = _matmul("f16")
    large = ScheduleOptions(library=True)
    assert not any(isinstance(step, LibraryCall) for step in scheduled(graph).steps)
    program = scheduled(graph, options=large)
    assert [step.over for step in program.steps if isinstance(step, LibraryCall)] == [("k",)]
    assert program.kernels == ()
    agrees(graph, program)
    assert not any(isinstance(step, LibraryCall) for step in scheduled(norm_linear(), options=large).steps)


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_what_both_dots_read_is_loaded_once(dtype: str) -> None:
    """Keys that are the values too, read by one dot as columns and by the other as rows; exact dots have their operands in registers."""
    s = Sketch("latent", "m=70 n=256 d=128", [Input("q", ("m", "d"), dtype, "m d"), Input("k", ("n", "d"), dtype, "n d")])
    x = s.op("mul", s.contract(0, 1, over="d"), 0.125)
    p = s.op("exp", s.op("sub", x, s.shift(x, "n")))
    s.output(s.op("div", s.contract(s.cast(p, dtype), 1, over="n"), s.reduce("sum", p, "n"), attr=("guarded",)), "m d", dtype)
    graph = s.graph()
    program = scheduled(graph)
    agrees(graph, program)
    if dtype == "f16":
        (loop,) = loops(program.kernels[0])
        assert [statement.buffer.name for statement in loop.body if isinstance(statement, Load)] == ["k"]
        assert sum(isinstance(statement, Dot) for statement in loop.body) == 2


@pytest.mark.parametrize("axes", [("m k", "k n", "m"), ("m k", "k n", "k"), ("m k", "k", "k"), ("m k", "m k", "m")])
def test_sums_of_one_operand_alone_are_no_matter_for_a_library(axes: tuple[str, str, str]) -> None:
    """Every summed axis of a product that a library takes is in both operands."""
    sizes = {"m": 4, "k": 5, "n": 6}
    left, right, out = axes
    s = Sketch(
        "sum",
        " ".join(f"{axis}={size}" for axis, size in sizes.items()),
        [Input("x", tuple(left.split()), "f32", left), Input("y", tuple(right.split()), "f32", right)],
    )
    over = " ".join(axis for axis in sizes if axis in f"{left} {right}".split() and axis not in out.split())
    s.output(s.contract(0, 1, over=over), out, "f32")
    graph = s.graph()
    for program in candidates([graph], {}, frozenset(), H200, count=8):
        for step in program.steps:
            if isinstance(step, LibraryCall):
                assert all(axis in left.split() and axis in right.split() for axis in step.over)
        module_of(program).verify()
        agrees(graph, program)
