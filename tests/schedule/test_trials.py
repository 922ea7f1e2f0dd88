"""The order in which ways to run a program are worth timing."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from functools import cache

import pytest

from cleave.schedule import space
from cleave.schedule.candidates import ALL, CROWDED, Space, Trial
from cleave.schedule.kernels import Choice

from .programs import H200, attention, linear_attention, split_attention
from .test_last import random_split
from .test_raster import matmul

GRAPHS = {
    "grouped": lambda: attention(b="4", g="8", r="4", m="4096", n="4096", d="128", e="128"),
    "shared": lambda: attention(b="4", g="2", r="16", m="512", n="512"),
    "decode": lambda: attention(g="8", r="4", m="16", n="4096", d="128", e="128"),
    "ragged": lambda: attention(g="8", r="4", m="129", n="4096", d="128", e="128"),
    "causal": lambda: attention(g="8", r="4", m="1024", n="1024", d="128", e="128", mask="causal"),
    "split": lambda: split_attention(m="16", n="16384", d="128", e="128", g="8"),
    "product": lambda: matmul("4096", "4096", "1024"),
    "products": linear_attention,
}


@cache
def spaces(name: str) -> Space:
    """What may be timed for a graph."""
    return space([GRAPHS[name]()], {}, frozenset(), H200)


def sides(choice: Choice) -> object:
    """What a kernel runs, but for how its axes are packed into a grid, and the order of tiles. Axes are packed with one inside of them."""
    if choice.call is not None:
        return "library"
    plan = choice.plan
    tiles = tuple(tuple((dim.axes[-1], dim.role, dim.tile) for dim in dims if dim.tile > 1) for dims in (plan.dims, plan.last))
    launch = (plan.num_warps, plan.num_stages, plan.max_registers, plan.persistent, bool(plan.descending), plan.ordered)
    return tiles, launch, plan.peeled, plan.branching, plan.descriptors, plan.diagonal, plan.pieces, choice.cost.programs


def ways(found: Space) -> dict[tuple[int, int], list[Trial]]:
    """The trials that vary one kernel, by division and kernel, in order."""
    out: dict[tuple[int, int], list[Trial]] = defaultdict(list)
    for trial in found.trials(ALL):
        if trial.varied is not None and sum(map(bool, trial.picks)) == 1:
            out[trial.division, trial.varied].append(trial)
    return out


def plans(found: Space, trial: Trial) -> str:
    """The plans of a trial as text, whatever division they are of."""
    return " | ".join("library" if choice.call is not None else str(choice.plan) for choice in found.choices(trial))


@pytest.mark.parametrize("name", GRAPHS)
def test_orders_of_the_same_tiles_do_not_crowd_out_other_tiles(name: str) -> None:
    """
    The ways of a kernel come by their estimates, to which every one before with the same tiles adds a step, and nothing else does but
    that another division has the same plans.
    """
    found = spaces(name)
    first = {trial.division: trial for trial in found.trials(ALL) if trial.varied is None}
    seen = Counter(plans(found, trial) for trial in found.trials(ALL))
    repeated, compared = 0, 0
    for (division, place), trials in ways(found).items():
        known = Counter([sides(found.choices(first[division])[place])])
        taken: dict[tuple[int, ...], float] = {}
        for trial in sorted(trials, key=lambda trial: (trial.seconds, trial.picks)):
            way = found.choices(trial)[place]
            taken[trial.picks] = trial.seconds + CROWDED * known[sides(way)] * way.cost.seconds
            repeated += known[sides(way)] > 0
            known[sides(way)] += 1
        order = [taken[trial.picks] for trial in trials if seen[plans(found, trial)] == 1]
        compared += len(order)
        assert all(one <= other + 1e-12 for one, other in itertools.pairwise(order))
    assert compared > 20
    assert (repeated > 3) == (name not in ("causal", "products"))


@pytest.mark.parametrize("name", ["grouped", "shared", "decode"])
def test_what_is_first_is_of_several_tiles(name: str) -> None:
    found = spaces(name)
    first = [tuple(map(sides, found.choices(trial))) for trial in found.trials(8)]
    assert len(set(first)) > 5
    assert sum(trial.division == 0 for trial in found.trials(8)) > 4


@pytest.mark.parametrize("seed", range(3))
def test_every_way_comes_once(seed: int) -> None:
    graph, sizes, dynamic = random_split(seed)
    found = space([graph], sizes, frozenset(dynamic), H200)
    every = found.trials(ALL)
    assert Counter((trial.division, trial.picks) for trial in every).most_common(1)[0][1] == 1
    alone = {(trial.division, trial.picks) for trial in every if sum(map(bool, trial.picks)) < 2}
    assert len(alone) == sum(1 + sum(count - 1 for count in found.ways(division)) for division in range(len(found.divisions)))
    assert every[0].division == 0 and every[0].varied is None
    assert found.trials(5) == every[:5]


@pytest.mark.parametrize("name", GRAPHS)
def test_the_orders_of_tiles(name: str) -> None:
    """Those of a way are its own class without it, best first, and never a library."""
    found = spaces(name)
    for division, counts in enumerate(found.ways(division) for division in range(len(found.divisions))):
        for place, count in enumerate(counts):
            ranked = found.divisions[division][1].ranked[place]
            for pick in range(count):
                orders = found.orders(division, place, pick)
                assert {*orders} == {at for at in range(count) if at != pick and sides(ranked[at]) == sides(ranked[pick])}
                assert [ranked[at].cost.seconds for at in orders] == sorted(ranked[at].cost.seconds for at in orders)
