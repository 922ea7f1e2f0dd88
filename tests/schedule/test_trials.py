"""The order in which ways to run a program are worth timing."""

from __future__ import annotations

from collections import Counter

import pytest

from cleave.graph import Graph
from cleave.schedule import space
from cleave.schedule.candidates import CROWDED, Space, Trial

from .programs import H200, attention
from .test_last import random_split
from .test_raster import matmul

PACKED = (
    attention(b="4", g="8", r="4", m="4096", n="4096", d="128", e="128"),
    attention(b="4", g="2", r="16", m="512", n="512"),
    attention(g="8", r="4", m="16", n="4096", d="128", e="128"),
    matmul("4096", "4096", "1024"),
)


def tiled(found: Space, trial: Trial) -> tuple[object, ...]:
    """What a trial runs, but for which axes make a dimension of its grids, and the order of their tiles."""
    out: list[object] = []
    for choice in found.choices(trial):
        plan = choice.plan
        tiles = tuple((dim.role, dim.tile) for dim in plan.dims if dim.tile > 1)
        launch = (plan.num_warps, plan.num_stages, plan.max_registers, plan.persistent, bool(plan.descending), plan.ordered)
        body = (plan.peeled, plan.branching, plan.descriptors, plan.diagonal, plan.last, plan.pieces)
        out.append((tiles, *launch, *body) if choice.call is None else "library")
    return tuple(out)


@pytest.mark.parametrize("graph", PACKED, ids=["grouped", "shared", "decode", "product"])
def test_orders_of_the_same_tiles_do_not_crowd_out_other_tiles(graph: Graph) -> None:
    """Of what the model holds to be as fast, within a step, tiles that no trial before had come first."""
    found = space([graph], {}, frozenset(), H200)
    every = [
        trial
        for trial in found.trials(100_000)
        if trial.division == 0 and trial.varied is not None and not found.called(0, 0, trial.picks[0])
    ]
    tiles = [tiled(found, trial) for trial in every]
    known = {tiled(found, found.trials(1)[0])}
    repeated = 0
    for place, trial in enumerate(every):
        if tiles[place] in known:
            repeated += 1
            new = (other for at, other in enumerate(every[place:], place) if tiles[at] not in known)
            assert not any(other.seconds < trial.seconds * (1 + CROWDED / 2) for other in new), found.text(trial)
        known.add(tiles[place])
    assert repeated > 3


@pytest.mark.parametrize("seed", range(3))
def test_every_way_comes_once(seed: int) -> None:
    graph, sizes, dynamic = random_split(seed)
    found = space([graph], sizes, frozenset(dynamic), H200)
    every = found.trials(100_000)
    assert Counter((trial.division, trial.picks) for trial in every).most_common(1)[0][1] == 1
    alone = {(trial.division, trial.picks) for trial in every if sum(map(bool, trial.picks)) < 2}
    assert len(alone) == sum(1 + sum(count - 1 for count in found.ways(division)) for division in range(len(found.divisions)))
    assert every[0].division == 0 and every[0].varied is None
    assert found.trials(5) == every[:5]
