"""Attention with masks, and compiled for all sizes: values, the share of live tiles, what tables add."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

import cleave
from cleave.bench import dynamic, masks
from cleave.bench.measuring import Command, command
from cleave.bench.results import GRAPH, OURS, Row
from cleave.bench.run import Measurement, empty_row
from cleave.tools import cleave_bench

from .clocks import ToldClock


def options(*arguments: str) -> Command:
    return command(cleave_bench.parser().parse_args(arguments))


def visible(name: str, i: int, j: int, ids: list[int]) -> bool:
    return {"causal": j <= i, "window": 0 <= i - j < 4, "documents": ids[i] == ids[j]}[name]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "WINDOW", 4)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("name", ["causal", "window", "documents"])
def test_values_of_masked_programs(name: str) -> None:
    case = masks.case(name, 13, heads=2, dimension=8)
    inputs = case.inputs("cpu", seed=1)
    q, k, v = (tensor.double().numpy()[0] for tensor in inputs[:3])
    ids = inputs[3].tolist() if name == "documents" else [0] * 13
    wanted = np.zeros_like(v)
    for h in range(2):
        for i in range(13):
            seen = [j for j in range(13) if visible(name, i, j, ids)]
            weights = np.exp(k[h, seen] @ q[h, i] / math.sqrt(8))
            wanted[h, i] = weights @ v[h, seen] / weights.sum()
    exact = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    np.testing.assert_allclose(case.program(*exact)[0].numpy(), wanted, rtol=1e-10, atol=1e-12)
    row = Measurement(replace(case, contenders=case.contenders[:1]), empty_row("masks", case), ToldClock(), "cpu").run(note=masks.note)
    assert row.right and not row.failed
    assert masks.UNMASKED in row.errors and masks.UNMASKED not in row.existing
    assert 0 < row.facts["share"] <= 1


def test_documents_lie_one_after_another() -> None:
    ids = masks.document_ids(500)(torch.Generator().manual_seed(2))
    assert ids.dtype == torch.int32 and ids.shape == (500,)
    assert ids.tolist() == sorted(ids.tolist()) and set(ids.tolist()) == set(range(8))


@pytest.mark.parametrize("tile", [(1, 1), (4, 4), (8, 2), (5, 7), (64, 64)])
@pytest.mark.parametrize("sees", [masks.causal_sees, masks.document_sees(torch.tensor([0] * 9 + [1] * 3 + [2] * 11))])
def test_the_share_of_live_tiles(sees: Callable[..., torch.Tensor], tile: tuple[int, int]) -> None:
    size, i = 23, torch.arange(23)
    seen = sees(i[:, None], i[None, :])
    tiles = [seen[a : a + tile[0], b : b + tile[1]].any().item() for a in range(0, size, tile[0]) for b in range(0, size, tile[1])]
    assert masks.live_share(seen, tile) == pytest.approx(sum(tiles) / len(tiles))


def test_the_tile_of_a_chosen_kernel() -> None:
    q = torch.randn(1, 2, 512, 64).half()
    ready = cleave.compile(masks.causal, q, q, q, cache=False)
    found = masks.tile_of(ready)
    assert found is not None
    rows, keys = found
    text = "; ".join(ready.program.notes)
    assert f"m grid {rows}," in text and f"n loop {keys}," in text
    assert masks.tile_of(cleave.compile(torch.add, q, q, cache=False)) is None


def test_what_is_told_of_masks_and_dynamic_sizes() -> None:
    row = Row(
        "masks", "causal 4096", "bfloat16", {"name": "causal", "size": 4096, "share": 0.5, "tile": [128, 64], "own tile": True}, "", ""
    )
    row.milliseconds = {f"{GRAPH}, {flush}": {OURS: 3.0, masks.UNMASKED: 5.0, dynamic.STATIC: 2.0} for flush in ("writes", "reads")}
    row.errors = {OURS: 1e-3}
    assert masks.over_unmasked(row, "reads") == pytest.approx(1.2)
    told = options("masks").columns(row)
    assert options("masks").counts(row) is None and told["flex over Cleave"] == "- / -"
    row.milliseconds = {name: {**times, "flex": 3.6, "cudnn": 2.0} for name, times in row.milliseconds.items()}
    row.existing = ["flex", "cudnn"]
    assert options("masks").counts(row) == pytest.approx(1.2) and row.lower() == pytest.approx(2 / 3)
    assert options("masks").columns(row)["flex over Cleave"] == "1.20 / 1.20"
    assert told["tile"] == "128x64" and told["live"] == "0.500" and any(text == "1.20 / 1.20 HIGH" for text in told.values())
    assert dynamic.over_static(row, "writes") == pytest.approx(1.5)
    assert options("dynamic").columns(row) == {"over static": "1.50 / 1.50"}
    lines = options("dynamic").lines([row])
    assert lines[0].startswith("over static, L2 flushed by writes: geometric mean 1.500, worst 1.50 at causal 4096")
    assert lines[-1] == "right: 1 of 1 sizes"
    row.failed[OURS] = "wrong"
    assert masks.over_unmasked(row, "reads") is None and dynamic.over_static(row, "reads") is None


def test_the_sizes_of_dynamic() -> None:
    assert len(set(dynamic.SIZES)) == len(dynamic.SIZES) == 40
    assert (dynamic.SIZES[0], dynamic.SIZES[-1]) == ((1, 1, 1), (8, 4096, 4096))
    assert sum(size % 2 for sizes in dynamic.SIZES for size in sizes[1:]) > 20


def test_one_compilation_is_right_at_every_size() -> None:
    ours = dynamic.Dynamic(dynamic.case(2, 16, 40, 4, 2, 16), "cpu", {"cache": False})
    made = None
    for size in ((1, 1, 1), (2, 5, 33), (3, 17, 1), (1, 1, 70)):
        case = replace(dynamic.case(*size, 4, 2, 16), contenders=())
        row = Measurement(case, empty_row("dynamic", case), ToldClock(), "cpu").run(ours)
        assert row.right, (size, row.failed)
        ready, _ = ours(case, ())
        assert made is None or ready is made
        made = ready
