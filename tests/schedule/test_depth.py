"""Long chains of operations are scheduled, or refused at the operation that ends them."""

from __future__ import annotations

import pytest

from cleave.errors import CleaveError
from cleave.graph import Graph, Input
from cleave.schedule import ScheduleOptions, scheduler

from .programs import H200, Sketch, candidates, scheduled


def _chain(kinds: tuple[str, ...], length: int) -> Graph:
    s = Sketch("deep", "m=8 n=4", [Input("x", ("m", "n"), "f32", "m n")])
    value = 0
    for at in range(length):
        s.builder.place = f"deep.mlir:{at + 2}:1"
        match kinds[at % len(kinds)]:
            case "exp":
                value = s.op("exp", value)
            case "add":
                value = s.op("add", value, 0)
            case _:
                value = s.reduce("sum", value, "n")
    s.output(value, "m n", "f32")
    return s.graph()


@pytest.mark.parametrize("kinds", [("exp",), ("add",), ("add", "exp")])
def test_chains_are_scheduled(kinds: tuple[str, ...]) -> None:
    assert len(scheduled(_chain(kinds, 100)).kernels) == 1


@pytest.mark.parametrize("kinds", [("exp",), ("add",), ("add", "exp"), ("reduce", "add")])
@pytest.mark.parametrize("length", [400, 2500])
def test_chains_that_are_too_long_are_refused_where_they_end(kinds: tuple[str, ...], length: int) -> None:
    graph = _chain(kinds, length)
    for way in (lambda: scheduled(graph), lambda: candidates([graph], {}, frozenset(), H200, ScheduleOptions(plans=2), count=2)):
        with pytest.raises(CleaveError) as caught:
            way()
        assert caught.value.place == f"deep.mlir:{length + 1}:1"
        assert f"ends a chain of {length + 1} operations" in str(caught.value)


def test_a_short_program_is_not_blamed_for_a_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(scheduler, "_considered", endless)
    with pytest.raises(RecursionError):
        scheduled(_chain(("exp",), 20))
    with pytest.raises(CleaveError, match="ends a chain of 301 operations"):
        scheduled(_chain(("exp",), 300))
