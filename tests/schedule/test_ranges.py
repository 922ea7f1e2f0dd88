"""Loops that masks made of data shorten: ranges that a kernel computes before, and lengths that are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cleave.frontend import capture
from cleave.graph import Graph, Input, Output, Symbol, without_dead_code
from cleave.passes.convert_alg_to_sched import hinted_sizes
from cleave.reference.dtypes import Array
from cleave.reference.evaluate import evaluate
from cleave.reference.sched import run_program
from cleave.runtime.build import lowered
from cleave.runtime.compile import SHARED_LIMITS, compile_module
from cleave.runtime.execute import executable, execute
from cleave.schedule import ScheduleOptions, space
from cleave.schedule.candidates import MODELLED, Space, Trial
from cleave.schedule.program import For, Launch, Let, Load, Program, Statement, When, walk
from cleave.schedule.relaxed import ROWS
from cleave.targets.triton_python import triton_file
from tests.acceptance.pipeline import alternatives

from .programs import H200, INFINITY, Sketch, agrees, attention, candidates, scheduled

FEW = ScheduleOptions(plans=24, ranked=6, peel=True, library=True, compare=True)
Mask = Callable[[Sketch], int]
IDS = Input("ids", ("m",), "i32", "m")


def masked(mask: Mask, extra: Sequence[Input], m: str, n: str, g: str = "2", symbols: Sequence[Symbol] = (), turned: bool = False) -> Graph:
    """Attention of g heads, the last axes 16 wide, with what a mask makes of the inputs after the first three; `turned` as `~mask`."""
    inputs = [
        Input("q", ("g", "m", "d"), "f16", "g m d"),
        Input("k", ("g", "n", "d"), "f16", "g n d"),
        Input("v", ("g", "n", "e"), "f16", "g n e"),
        *extra,
    ]
    s = Sketch("attend", f"g={g} m={m} n={n} d=16 e=16", inputs, symbols)
    x = s.contract(0, 1, over="d")
    live, none = mask(s), s.builder.add("constant", attr=(-INFINITY,))
    x = s.op("select", live, none, x) if turned else s.op("select", live, x, none)
    top = s.shift(x, "n")
    p = s.op("exp", s.op("sub", x, top))
    z = s.reduce("sum", p, "n")
    s.output(s.op("div", s.contract(s.cast(p, "f16"), 2, over="n"), z, attr=("guarded",)), "g m e")
    return s.graph()


def documents(s: Sketch) -> int:
    """Rows see keys of the same document."""
    return s.op("compare", 3, s.op("rename", 3, attr=((("m", "n"),),)), attr=("eq",))


def causal_documents(s: Sketch) -> int:
    """Of those, keys up to the row."""
    seen = s.op("compare", s.op("iota", attr=("n",)), s.op("iota", attr=("m",)), attr=("le",))
    return s.op("and", seen, documents(s))


def earlier_documents(s: Sketch) -> int:
    """Rows see keys of documents that have no higher number, but for those of a document numbered 0."""
    other = s.op("rename", 3, attr=((("m", "n"),),))
    none = s.builder.add("constant", attr=(0,), dtype="i32")
    return s.op("and", s.op("compare", 3, other, attr=("ge",)), s.op("not", s.op("compare", other, none, attr=("eq",))))


def given_mask(s: Sketch) -> int:
    """What the fourth input holds."""
    return 3


def of_documents(length: str, mask: Mask = documents, symbols: Sequence[Symbol] = ()) -> Graph:
    return masked(mask, [IDS], length, length, symbols=symbols)


def of_mask(m: str, n: str, axes: str = "m n", symbols: Sequence[Symbol] = (), turned: bool = False) -> Graph:
    return masked(given_mask, [Input("mask", tuple(axes.split()), "i1", axes)], m, n, symbols=symbols, turned=turned)


def ranged(
    graph: Graph,
    sizes: Mapping[str, int] | None = None,
    dynamic: Sequence[str] = (),
    options: ScheduleOptions | None = None,
    ordered: bool = False,
) -> list[Program]:
    """The programs whose loops are bounded by ranges, the best first; `ordered` are those whose tiles of rows run longest first."""
    found = space([graph], sizes or {}, frozenset(dynamic), H200, options)
    trials = [trial for trial in found.trials(200) if is_ranged(found, trial, ordered)]
    return [found.program(trial) for trial in trials]


def is_ranged(found: Space, trial: Trial, ordered: bool = False) -> bool:
    source = found.divisions[trial.division][1].source
    return source.ranged and source.ordered == ordered


def ways(graph: Graph, ordered: bool = False) -> Iterator[tuple[str, str, Program]]:
    """For each tile of rows and each way to walk the columns the best program with ranges, with those."""
    found = space([graph], {}, frozenset(), H200, replace(FEW, plans=200, ranked=1000))
    known: set[tuple[str, str]] = set()
    for trial in found.trials(10000):
        *_, text = found.text(trial).split(" | ")
        way = re.findall(r"\bm grid (\d+)|$", text)[0], next((name for name in ("branching", "peeled") if name in text), "")
        if is_ranged(found, trial, ordered) and way not in known:
            known.add(way)
            yield *way, found.program(trial)


def final_loop(program: Program) -> For:
    """The loop over keys of the kernel that is launched last."""
    last = [step.kernel for step in program.steps if isinstance(step, Launch)][-1]
    kernel = next(kernel for kernel in program.kernels if kernel.name == last)
    return next(statement for statement in walk(kernel.body) if isinstance(statement, For))


def test_documents_get_ranges() -> None:
    """A kernel stores from where to where any row of each chunk has live keys; a tile walks from the first to the last of its chunks."""
    (_, _, program) = next(way for way in ways(of_documents("1024")) if way[:2] == ("128", ""))
    text = triton_file(lowered(program)).text
    first, last, *_ = re.findall(r"tl\.store\((tmp\d+)_ptr", text)
    assert len(program.kernels) == 2 and program.kernels[0].grid[0].count.constant == 1024 // ROWS
    main = text[text.index("def attend_out(") :]
    assert re.search(rf"{first} = tl\.load\({first}_ptr \+ m_chunk_i64\)", main)
    assert re.search(rf"range\(tl\.maximum\(0, tl\.maximum\(tl\.minimum\({first}, {first}_2\), 0\) // (\d+) \* \1\), ", main)
    assert re.search(rf"tl\.minimum\(1024, tl\.maximum\({last}, {last}_2\)\), \d+\)", main)
    body = main[main.index("range(tl.maximum") :]
    inside = body[body.index("# along n") : body.index("tl.store")]
    assert re.search(r"ids\w*\[:, None\] == ids\w*\[None, :\]", inside)
    assert first not in inside and last not in inside, "the range is not looked at again"


def looks_at_ids(body: Sequence[Statement]) -> bool:
    """Whether statements load ids."""
    return any(isinstance(part, Load) and part.buffer.name == "ids" for part in walk(tuple(body)))


def bodies(program: Program) -> list[bool]:
    """For each loop of the kernel launched last whether it loads ids."""
    return [looks_at_ids(statement.body) for statement in walk(program.kernels[-1].body) if isinstance(statement, For)]


def test_whole_tiles_of_a_document_are_not_compared() -> None:
    """Tiles within the run of a chunk have a body of their own, before and after which ids are read, or a branch in which they are."""
    found = {walked: program for _, walked, program in ways(of_documents("1024"))}
    assert bodies(found["peeled"]) == [True, False, True]
    loop = final_loop(found["branching"])
    (branch,) = [statement for statement in loop.body if isinstance(statement, When)]
    assert looks_at_ids(branch.body) and bodies(found["branching"]) == [True]
    assert not looks_at_ids([statement for statement in loop.body if statement is not branch])


@pytest.mark.parametrize(
    "graph", [of_documents("512"), of_mask("300", "512"), of_mask("64", "2000", turned=True)], ids=["ids", "mask", "turned"]
)
def test_ranges_are_tried_early_and_not_preferred(graph: Graph) -> None:
    """Without timing the program stays as it is; where it is timed, ranges are among the first."""
    found = space([graph], {}, frozenset(), H200)
    first, second, *_ = found.trials(8)
    assert not found.divisions[first.division][1].source.ranged and is_ranged(found, second)
    plain = scheduled(graph, options=ScheduleOptions(peel=True, library=True, compare=True))
    assert triton_file(lowered(found.program(found.trials(1)[0]))).text == triton_file(lowered(plain)).text


@pytest.mark.parametrize("graph", [of_documents("512"), of_mask("300", "512")], ids=["ids", "mask"])
def test_none_are_planned_where_nothing_is_timed(graph: Graph) -> None:
    """Only times tell what they save."""
    assert not any(candidate.source.ranged for _, candidate in space([graph], {}, frozenset(), H200, MODELLED).divisions)


@pytest.mark.parametrize("mask", ["", "causal", "window", "input"])
def test_other_masks_have_none(mask: str) -> None:
    assert not ranged(attention(m="300", n="300", mask=mask))


def test_an_estimate_takes_the_loop_to_be_whole() -> None:
    """The kernel that walks a range costs what the one does that walks everything."""
    found = space([of_documents("4096")], {}, frozenset(), H200)
    plain = found.divisions[0][1].choices
    bounded = next(candidate for _, candidate in found.divisions if candidate.source.ranged).choices
    assert plain[-1].cost.dot_flops == bounded[-1].cost.dot_flops


def ids_of(rng: np.random.Generator, length: int, count: int, order: str) -> Array:
    """Negative and other ids: `sorted`, each run of `runs` in a place of its own, so that they come back later, or `random`."""
    ids = rng.integers(-count, count, length)
    if order == "runs":
        return np.repeat(ids, rng.integers(1, 120, length))[:length]
    return np.sort(ids) if order == "sorted" else ids


@cache
def in_each_way(length: int, mask: Mask) -> tuple[Graph, tuple[tuple[str, str, Program], ...]]:
    """Rows that see of documents what a mask says, and the programs for it."""
    graph = of_documents(str(length), mask)
    return graph, tuple(ways(graph))


@pytest.mark.parametrize("mask", [documents, causal_documents, earlier_documents])
@pytest.mark.parametrize("length", [1, 17, 300])
def test_documents_agree(mask: Mask, length: int) -> None:
    """In tiles smaller and larger than a chunk, walked in one loop to three."""
    graph, found = in_each_way(length, mask)
    assert len(found) >= (1 if length == 1 else 3)
    if length == 300:
        assert {("16", "peeled"), ("64", ""), ("256", "branching")} <= {way[:2] for way in found}
    for seed, (_, _, program) in enumerate(found):
        rng = np.random.default_rng(seed)
        order = ("sorted", "runs", "random")[seed % 3]
        agrees(graph, program, changed={"ids": ids_of(rng, length, int(rng.integers(1, 4)), order)})


def stored_ranges(graph: Graph, ids: Array) -> tuple[Array, ...]:
    """First and last live column of each chunk of rows, and those of the run that all of its rows see."""
    found = space([graph], {}, frozenset(), H200, FEW)
    source = next(candidate.source for _, candidate in found.divisions if candidate.source.ranged)
    outputs = tuple(Output(cut, " ".join(source.graph.ops[cut].axes), "i32") for cut in source.cuts)
    data = [np.zeros((2, len(ids), 16))] * 3
    return evaluate(without_dead_code(replace(source.graph, outputs=outputs)), [*data, ids], {})


def test_ranges_of_documents_are_as_narrow_as_chunks() -> None:
    """Where documents follow one another: of 70, 130 and 100 rows, so that the first and the third chunk lie within one."""
    first, last, whole, end = stored_ranges(of_documents("300"), np.repeat([-2, 5, 7], [70, 130, 100]))
    assert [*zip(first, last, strict=True)] == [(0, 70), (0, 200), (70, 200), (70, 300), (200, 300)]
    assert [(whole[chunk], end[chunk]) for chunk in (0, 2, 4)] == [(0, 70), (70, 200), (200, 300)]
    assert all(whole[chunk] == 300 for chunk in (1, 3))


def recent(s: Sketch) -> int:
    """Rows see the last 600 columns up to their own."""
    row, column = (s.op("iota", attr=(axis,)) for axis in ("m", "n"))
    near = s.op("compare", s.op("sub", row, column), s.builder.add("constant", attr=(600,)), attr=("lt",))
    return s.op("and", s.op("compare", column, row, attr=("le",)), near)


def test_three_short_loops_cost_more_than_one() -> None:
    """Each loop waits for what it loads first: where few tiles are live, one loop that branches past its masks is best."""
    found = space([masked(recent, [], "4000", "4000")], {}, frozenset(), H200, replace(FEW, ranked=1000))
    alone = [trial for trial in found.trials(1000) if len(trial.picks) == 1]
    seconds = {found.text(trial): trial.seconds for trial in alone}
    way = ", branching at masks"
    found_with = [(took, text) for text, took in seconds.items() if way in text]
    assert found_with
    for took, text in found_with:
        assert took <= seconds[text.replace(way, "")]
        assert took <= seconds.get(text.replace(way, ", peeled"), took)


def test_sizes_known_at_run_time() -> None:
    symbols = (Symbol("N", (4096,)),)
    graph = of_documents("N", symbols=symbols)
    programs = ranged(graph, {"N": 4096}, ("N",), FEW)
    assert programs
    rng = np.random.default_rng(0)
    for length in (1, 3, 17, 300):
        agrees(graph, programs[0], {"N": length}, changed={"ids": ids_of(rng, length, 4, "sorted")})


def of_any_size(kind: str) -> Graph:
    """A mask by what it is given for: axes, or `turned` for one that says what is not seen."""
    symbols = (Symbol("M", (512,)), Symbol("N", (512,)))
    turned = kind == "turned"
    return of_mask("M", "N", "m n" if turned else kind, symbols, turned)


@cache
def bounded(kind: str) -> tuple[Graph, Program]:
    """The graph with a mask, and the best program with ranges for it."""
    graph = of_any_size(kind)
    return graph, ranged(graph, {"M": 512, "N": 512}, ("M", "N"), FEW)[0]


@settings(max_examples=12, deadline=None)
@given(
    kind=st.sampled_from(["m n", "turned", "g m n", "g n"]),
    m=st.sampled_from([1, 3, 17, 70]),
    n=st.sampled_from([1, 3, 17, 300]),
    share=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_random_masks_agree(kind: str, m: int, n: int, share: float, seed: int) -> None:
    """Whatever is live: single keys, all from some key on, whole rows without any."""
    graph, program = bounded(kind)
    rng = np.random.default_rng(seed)
    mask = rng.random([{"g": 2, "m": m, "n": n}[axis] for axis in graph.inputs[3].axes]) < share
    mask[..., : rng.integers(0, n + 1)] = False
    mask[rng.random(mask.shape[:-1]) < 0.3] = False
    agrees(graph, program, {"M": m, "N": n}, changed={"mask": ~mask if kind == "turned" else mask})


def visited(graph: Graph, program: Program, changed: Mapping[str, Any]) -> Array:
    """For each key whether the kernel launched last reads its values: those that are not may be anything."""
    extents = graph.sizes({})
    rng = np.random.default_rng(0)
    shapes = [[extents[axis] for axis in entry.axes] for entry in graph.inputs]
    data = [changed.get(entry.name, rng.standard_normal(shape)) for entry, shape in zip(graph.inputs, shapes, strict=True)]
    out: list[bool] = []
    for key in range(extents["n"]):
        values = np.array(data[2])
        values[:, key] = np.nan
        (found,) = run_program(program, [*data[:2], values, *data[3:]], {})
        out.append(bool(np.isnan(found).any()))
    return np.array(out)


def test_what_no_row_of_a_tile_sees_is_not_read() -> None:
    """Keys 64 to 127 of 192 are live: tiles of other keys are never multiplied, not even by weights of 0."""
    graph = of_mask("16", "192")
    mask = np.zeros((16, 192), bool)
    mask[3, 70], mask[5, 120] = True, True
    program = next(program for program in ranged(graph) if final_loop(program).step <= 64)
    seen = visited(graph, program, {"mask": mask})
    assert seen[64:128].all() and not seen[:64].any() and not seen[128:].any()
    assert not visited(graph, program, {"mask": np.zeros((16, 192), bool)}).any()


def test_rows_past_the_end_see_nothing() -> None:
    """The last row, alone in its tile but for rows that do not exist, is walked from its own first key on."""
    graph = of_mask("17", "192")
    mask = np.zeros((17, 192), bool)
    mask[16, 150] = True
    program = next(program for program in ranged(graph) if final_loop(program).step <= 64 and "m grid 16" in program.notes[-1])
    seen = visited(graph, program, {"mask": mask})
    assert seen[128:].all() and not seen[:128].any()


def compared(predicate: str, first: bool, axes: str) -> Graph:
    """Rows see keys whose index compares so with a number given along some axes; with `first` the index is on the left."""

    def seen(s: Sketch) -> int:
        key = s.cast(s.op("iota", attr=("n",)), "i32")
        return s.op("compare", *((key, 3) if first else (3, key)), attr=(predicate,))

    return masked(seen, [Input("length", tuple(axes.split()), "i32", axes)], "40", "200")


@pytest.mark.parametrize("predicate", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize(("first", "axes", "peel"), [(True, "g", True), (False, "g m", False), (True, "g m", True)])
def test_given_numbers_bound_loops(predicate: str, first: bool, axes: str, peel: bool) -> None:
    """Without ranges, and whatever integer is given: were there sums that overflow, the largest would end the loop before it began."""
    graph = compared(predicate, first, axes)
    assert not ranged(graph, options=FEW)
    found = candidates([graph], {}, frozenset(), H200, ScheduleOptions(plans=24, ranked=400, peel=True), count=400)
    program = next(program for program in found if ("peeled" in program.notes[-1]) == peel)
    loop = final_loop(program)
    constants = [
        statement.out for statement in walk(program.kernels[-1].body) if isinstance(statement, Let) and statement.kind == "constant"
    ]
    assert not (loop.start in constants and loop.stop in constants)
    ready = executable(program)
    rng = np.random.default_rng(1)
    shape = [{"g": 2, "m": 40}[axis] for axis in graph.inputs[3].axes]
    queries, keys, values = (rng.standard_normal((2, size, 16)).astype(np.float16) for size in (40, 200, 200))
    for ends in ([0], [1], [64], [199], [200], [201], [-1], [-(2**31)], [2**31 - 1], [-5, 0, 3, 130, 2**31 - 1]):
        lengths = rng.choice(ends, shape)
        agrees(graph, program, changed={"length": lengths})
        # Only Triton's integers overflow.
        (found,) = execute(ready, [queries, keys, values, lengths])
        (wanted,) = run_program(program, [queries, keys, values, lengths], {}, rounding=True)
        np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=4e-3)


def torch_documents(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    """Within the documents of each sequence; heads share keys by groups."""
    seen = (ids[:, :, None] == ids[:, None, :])[:, None]
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    return torch.softmax((q @ k.transpose(-1, -2) / 4.0).masked_fill(~seen, -INFINITY), -1) @ v


def torch_causal_documents(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    at = torch.arange(ids.shape[-1])
    seen = ((ids[:, :, None] == ids[:, None, :]) & (at[:, None] >= at[None, :]))[:, None]
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    return torch.softmax((q @ k.transpose(-1, -2) / 4.0).masked_fill(~seen, -INFINITY), -1) @ v


def torch_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """A mask for all heads; rows that see nothing give 0."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


@pytest.mark.parametrize("length", [3, 17, 300])
@pytest.mark.parametrize("function", [torch_documents, torch_causal_documents, torch_mask])
def test_interpreted_kernels_agree_with_torch(function: Callable[..., Tensor], length: int) -> None:
    """Grouped heads in a batch; documents in order and not, rows that see nothing."""
    torch.manual_seed(length)
    q, k, v = (torch.randn(2, heads, length, 16) for heads in (4, 2, 2))
    mask = torch.rand(2, 1, length, length) < 0.02
    ids = torch.stack([torch.randint(0, 4, (length,)), torch.randint(0, 4, (length,)).sort().values]).to(torch.int32)
    given = mask if function is torch_mask else ids
    captured = capture(function, (q, k, v, given))
    graphs = alternatives(captured.graph)
    sizes = hinted_sizes(graphs)
    found = space(graphs, sizes, frozenset(sizes), H200, FEW)
    trial = next(trial for trial in found.trials(100) if is_ranged(found, trial))
    (result,) = execute(found.program(trial), captured.bindings.views(captured.bindings.flatten((q, k, v, given)), {}), {})
    assert isinstance(result, Tensor)
    torch.testing.assert_close(result.reshape(q.shape), function(q, k, v, given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "graph", [of_documents("4096"), of_mask("4096", "4096"), of_documents("4001", causal_documents)], ids=["ids", "mask", "causal"]
)
def test_kernels_compile_for_hopper(graph: Graph) -> None:
    for kernel in compile_module(executable(ranged(graph)[0]).module, "sm_90"):
        assert kernel.spills == 0
        assert kernel.shared <= SHARED_LIMITS["sm_90"]
