"""Several schedules behind one call: made for the hints, chosen by the sizes of the call, equal in what they compute."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

import cleave
from cleave.choosing import compared
from cleave.extents import extent
from cleave.graph import Axis, Builder, Input, Output, Symbol
from cleave.runtime.builders import BUILDERS, BuildError
from cleave.runtime.execute import execute
from cleave.schedule import TARGETS, space
from cleave.schedule.program import inputs_read
from cleave.variants import fastest, ones
from tests.schedule.programs import attention

HINTS = ({"m": 1, "n": 4096}, {"m": 4096, "n": 64}, {"m": 1, "n": 4096})


def scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT * 0.125, -1) @ v


def compiled(hints: tuple[dict[str, int], ...], **options: Any) -> cleave.Compiled:
    m, n = Dim("m", min=1), Dim("n", min=1)
    example = [torch.randn(2, size, 64).half() for size in (37, 53, 53)]
    return cleave.compile(scaled, *example, dynamic_shapes=({1: m}, {1: n}, {1: n}), hints=hints, target="h200", tune=False, **options)


def test_sizes_choose_the_variant_and_every_variant_is_right() -> None:
    ready = compiled(HINTS)
    assert [dict(variant.point) for variant in ready.variants] == [HINTS[0], HINTS[1]], "equal schedules are one variant"
    assert fastest(ready.variants, HINTS[0])[0] == 0
    assert fastest(ready.variants, HINTS[1])[0] == 1
    assert len(ready.kernels) == sum(len(variant.program.kernels) for variant in ready.variants)
    torch.manual_seed(1)
    taken: set[int] = set()
    for m, n in ((1, 1), (1, 700), (5, 33), (130, 3), (200, 70)):
        arguments = [torch.randn(2, size, 64).half() for size in (m, n, n)]
        wanted = scaled(*(argument.double() for argument in arguments))
        ours, eager = ((value.double() - wanted).abs().max() for value in (ready(*arguments), scaled(*arguments)))
        assert ours <= 2 * eager + 2**-10 * wanted.abs().max()
        taken.add(fastest(ready.variants, {"m": m, "n": n})[0])
    assert taken == {0, 1}


@pytest.mark.parametrize("level", ["sched", "tt", "triton", "ttir"])
def test_texts_of_variants_follow_one_another(level: str) -> None:
    ready = compiled(HINTS[:2])
    text = ready.text(level)
    mark = "#" if level == "triton" else "//"
    assert [line for line in text.splitlines() if line.startswith(f"{mark} for ")] == [
        f"{mark} for m = 1 (fixed), n = 4096",
        f"{mark} for m = 4096, n = 64",
    ]
    assert "for m = 4096, n = 64:" in str(ready.report())


ROW = ({"b": 1, "m": 1, "n": 300},)


@pytest.fixture(scope="module")
def row() -> cleave.Compiled:
    b, m, n = (Dim(name, min=0) for name in ("b", "m", "n"))
    example = [torch.randn(2, size, 16).half() for size in (37, 53, 53)]
    shapes = ({0: b, 1: m}, {0: b, 1: n}, {0: b, 1: n})
    return cleave.compile(scaled, *example, dynamic_shapes=shapes, hints=ROW, target="h200", tune=False)


def test_one_row_is_a_constant_and_other_numbers_of_rows_have_a_schedule_of_their_own(row: cleave.Compiled) -> None:
    """A batch stays known at run time, though the hint is 1."""
    assert [variant.fixed for variant in row.variants] == [{"m": 1}, {}]
    one, general = (dict(variant.program.sizes) for variant in row.variants)
    assert "m" not in one and not any("m" in size.symbols for size in one.values()), "an axis of one row is folded away"
    assert str(general["m"]) == "m" and {str(sizes["b"]) for sizes in (one, general)} == {"b"}
    texts = row.text("triton").split("# for ")[1:]
    assert [text.splitlines()[0] for text in texts] == ["b = 1, m = 1 (fixed), n = 300", "b = 1, m = 1, n = 300"]
    own, other = (re.findall(r"\w+", text.partition("def ")[2].partition(")")[0]) for text in texts)
    assert "n" in own and "m_programs" in other
    assert not any(name.startswith("m") for name in own), "a kernel of one row has no parameter for their number"


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 1, 70), (2, 5, 33), (1, 2, 130), (0, 1, 5), (2, 0, 5), (0, 0, 0), (2, 3, 0), (2, 1, 0)])
def test_calls_of_one_row_take_the_schedule_for_it_and_no_others_do(row: cleave.Compiled, sizes: tuple[int, int, int]) -> None:
    torch.manual_seed(2)
    b, m, n = sizes
    arguments = [torch.randn(b, size, 16).half() for size in (m, n, n)]
    found = row(*arguments)
    wanted = scaled(*(argument.double() for argument in arguments))
    assert found.shape == wanted.shape
    torch.testing.assert_close(found.double(), wanted, rtol=2e-3, atol=2e-3)
    symbols = {"b": b, "m": m, "n": n}
    assert fastest(row.variants, symbols)[0] == (0 if m == 1 else 1)
    assert row._ready(symbols)[0] is row._executables[0 if m == 1 else 1]


def test_what_other_processes_do_not_plan_is_planned_in_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, call = compiled(HINTS[:2], cache=False), BUILDERS.call
    asked: list[object] = []

    def failing(function: Callable[..., Any], *arguments: object, patience: float) -> Future[Any]:
        if function is not space:
            return call(function, *arguments, patience=patience)
        asked.append(arguments[1])
        out: Future[Any] = Future()
        out.set_exception(BuildError("the process ended"))
        return out

    monkeypatch.setattr(BUILDERS, "call", failing)
    here = compiled(HINTS[:2], cache=False)
    assert asked == [HINTS[1]]
    for level in ("alternatives", "sched", "tt"):
        assert here.text(level) == elsewhere.text(level)
    assert "the schedules for m = 4096, n = 64 were planned again: the process ended" in here.report().remarks
    assert not any("planned again" in remark for remark in elsewhere.report().remarks)


def test_variants_are_compared_between_their_sizes_where_that_takes_no_longer_than_at_them() -> None:
    ready = compiled(HINTS)
    points = compared(HINTS, ready.graph, ready.variants, {"m": 37, "n": 53}, lambda at: at["m"] * at["n"] != 64 * 512)
    assert points[:3] == [*HINTS]
    between = [(point["m"], point["n"]) for point in points[3:]]
    assert {(1, 64), (64, 64)} <= {*between} and not {(64, 512), (4096, 4096)} & {*between}

    def seconds(m: int, n: int) -> float:
        return min(variant.prediction.seconds({"m": m, "n": n}) for variant in ready.variants if variant.takes({"m": m, "n": n}))

    most = max(seconds(*hint.values()) for hint in HINTS)
    assert all((seconds(m, n) <= most) == ((m, n) in between) for m in (1, 64, 4096) for n in (64, 4096) if {"m": m, "n": n} not in HINTS)


def test_what_is_known_of_fixed_sizes_is_known_to_the_search() -> None:
    """The softmax over one key is 1, whatever the scores: its values are copied, queries and keys are not read."""
    ready = compiled(({"m": 128, "n": 1}, {"m": 64, "n": 64}))
    one, general = ready.variants
    assert one.spelled == "m = 128, n = 1 (fixed)" and inputs_read(one.program) == {2}
    assert inputs_read(general.program) == {0, 1, 2}
    for level in ("alternatives", "stabilized"):
        anew = ready.text(level).split("// where ")
        assert len(anew) == 2 and anew[1].startswith("n = 1\n") and "reduce" not in anew[1]
    for m in (1, 3, 130):
        q, k, v = (torch.randn(2, size, 64).half() for size in (m, 1, 1))
        (found,) = execute(ready._executables[0], [q, k, v], {"m": m, "n": 1})
        torch.testing.assert_close(torch.as_tensor(found).reshape(2, m, 64), v.expand(2, m, 64), rtol=0, atol=0)
        torch.testing.assert_close(ready(q, k, v), v.expand(2, m, 64))


def test_no_further_schedule_where_one_takes_all_sizes() -> None:
    ready = compiled(({"m": 1, "n": 64}, {"m": 64, "n": 64}))
    assert [(variant.point["m"], variant.fixed) for variant in ready.variants] == [(1, {"m": 1}), (64, {})]


def test_a_symbol_is_a_constant_where_it_is_1_and_no_batch() -> None:
    """Rows of attention: not all tensors have them, as they have the batch. Scalars have no axes at all."""
    symbols = [Symbol(name) for name in ("b", "m", "n")]
    graph = attention(b="b", g="4", m="m", n="2*n", d="64", e="64", symbols=symbols)
    assert ones(graph, {"b": 1, "m": 1, "n": 1}) == {"m": 1, "n": 1}
    assert ones(graph, {"b": 1, "m": 2}) == {}
    even = replace(graph, symbols=tuple(replace(symbol, multiple_of=2) for symbol in graph.symbols))
    assert ones(even, {"m": 1}) == {}
    axes = [Axis("m", extent("m")), Axis("d", extent(8))]
    builder = Builder("rows", symbols, axes, [Input("x", ("m", "d"), "f32", "m d"), Input("scale", (), "f32", "")])
    rows = builder.finish([Output(builder.add("mul", 0, 1), "m d", "f32")])
    assert ones(rows, {"m": 1}) == {}


def test_a_prediction_at_the_scheduled_sizes_is_the_estimate() -> None:
    graph = attention(b="2", g="4", m="512", n="1024", d="64", e="64")
    target = TARGETS["h200"]
    found = space([graph], {}, frozenset(), target)
    for trial in found.trials(6):
        division = found.divisions[trial.division][1]
        estimated = sum(ways[pick].cost.seconds for ways, pick in zip(division.ranked, trial.picks, strict=True))
        predicted = found.prediction(trial, target).seconds({})
        assert predicted - estimated == pytest.approx(division.seconds - sum(choice.cost.seconds for choice in division.choices))


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ([{"m": 2.5}], "hint 2.5 for 'm'; give a whole number from 1 up"),
        ([{"m": "8"}], "hint '8' for 'm'"),
        ([{"m": None}], "hint None for 'm'"),
        ([{"m": True}], "hint True for 'm'"),
        ([{"m": 0}], "hint 0 for 'm'"),
        ({"m": 4}, "hints is no sequence of mappings"),
        ("m", "hints is no sequence of mappings"),
        ([{"k": 4}], "hint for 'k', which is not a symbol"),
    ],
)
def test_hints_that_are_none(hints: Any, message: str) -> None:
    with pytest.raises(cleave.CleaveError, match=message):
        compiled(hints)


def cut(x: Tensor, y: Tensor) -> Tensor:
    return y.narrow(0, x.shape[0], y.shape[0] - x.shape[0]).exp().sum(0) + x.sum(0)


@pytest.mark.parametrize(("least", "hint", "message"), [
    (0, {"m": 512, "n": 64}, "no call has m = 512, n = 64: the program was traced for -1*m + n >= 0; give hints of sizes that calls have"),
    (2, {"m": 1, "n": 64}, "no call has m = 1, n = 64: the program was traced for m >= 2"),
    (2, {"m": 1}, "no call has m = 1: the program was traced for m >= 2"),
])  # fmt: skip
def test_hints_that_no_call_has(least: int, hint: dict[str, int], message: str) -> None:
    shapes = ({0: Dim("m", min=least)}, {0: Dim("n", min=0)})
    with pytest.raises(cleave.CleaveError, match=re.escape(message)):
        cleave.compile(cut, torch.randn(37, 8), torch.randn(53, 8), dynamic_shapes=shapes, hints=[hint], cache=False)


def test_variants_are_compared_where_calls_may_be() -> None:
    """The first tensor is no longer than the second."""
    shapes = ({0: Dim("m", min=0)}, {0: Dim("n", min=0)})
    hints = ({"m": 8, "n": 64}, {"m": 512, "n": 4096})
    ready = cleave.compile(cut, torch.randn(37, 8), torch.randn(53, 8), dynamic_shapes=shapes, hints=hints, tune=False)
    points = compared(hints, ready.graph, ready.variants, {"m": 37, "n": 53}, ready.bindings.able)
    assert {"m": 8, "n": 512} in points and len(points) > 2
    assert all(point["m"] <= point["n"] for point in points)


def test_threads_may_compile_at_once() -> None:
    """Tracing is one at a time; each thread gets the program of its function."""
    x = torch.randn(4, 8)

    def work(number: int) -> Tensor:
        return cleave.compile(lambda x: x * number, x, cache=False)(x)

    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(work, range(8))):
            torch.testing.assert_close(found, x * number)


@pytest.mark.parametrize("make", [lambda x: x.to_sparse(), lambda x: x.to("meta")], ids=["sparse", "meta"])
def test_other_tensors_are_refused_at_a_call(make: Any) -> None:
    x = torch.randn(4, 8)
    ready = cleave.compile(lambda x: x * 2, x)
    with pytest.raises(cleave.CleaveError, match="pass dense tensors on cpu or cuda"):
        ready(make(x))
