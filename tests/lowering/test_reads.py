"""Loads that are merged when tiles are lowered: random bodies, of which two buffers may be one, compute what the tiles do."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from cleave.extents import extent
from cleave.reference.sched import run_program
from cleave.runtime.execute import execute
from cleave.schedule.program import Buffer, Carried, Either, For, GridDim, Kernel, Launch, Load, Program, TileType, Var, When
from tests.tile_programs import Body, scalar

TILE, SIZE, BOUND = 16, 32, 24


class Drawn:
    """A kernel drawn at random: dots of tiles of `a`, `b` and `c`, in any order of their axes, and stores to `b` between them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.buffers = {name: Buffer(name, ("i", "j"), "f16", (SIZE, 1)) for name in "abc"}
        self.result = Buffer("y", ("n", "p", "q"), "f32", (TILE * TILE, TILE, 1))
        self.body = Body()
        self.start = scalar("start")
        self.zero = self.body.constant(0, "index", "zero")
        self.half = self.body.constant(TILE, "index", "half")
        self.bounds = {axis: self.body.constant(BOUND, "index", f"{axis}_bound") for axis in "ij"}
        self.starts = [self.zero, self.half, self.start]
        self.drawn: list[tuple[str, Var, Var, tuple[str, ...], float]] = []
        self.acc = self.body.fill("acc", 0.0, "f32", m=TILE, o=TILE)

    def tile(self, body: Body, dims: tuple[str, str], starts: Sequence[Var], ranges: dict[tuple[str, int], Var]) -> Var:
        """A load of two dimensions, mostly of what another one read, under the same names of dimensions or others."""
        draw = self.random
        if not self.drawn or draw.random() < 0.3:
            check = draw.choice([(), (), ("i",), ("i", "j")])
            self.drawn.append((draw.choice("abc"), draw.choice(starts), draw.choice(starts), check, draw.choice([0.0, 1.0])))
        buffer, *origin, check, other = draw.choice(self.drawn)
        origin = [start if any(start is one for one in starts) else self.zero for start in origin]
        places = [self.range(body, dim, start, ranges) for dim, start in zip(draw.choice([dims, dims[::-1]]), origin, strict=True)]
        out = Var("tile", TileType(tuple((dim, TILE) for dim in dims), "f16"))
        load = Load(out, self.buffers[buffer], tuple(zip("ij", places, strict=True)), check, other if check else None)
        body.statements.append(load)
        return out

    def range(self, body: Body, dim: str, start: Var, ranges: dict[tuple[str, int], Var]) -> Var:
        """The index from a start, made once."""
        key = dim, id(start)
        if key not in ranges:
            ranges[key] = body.range(dim, TILE, start)
        return ranges[key]

    def dot(self, body: Body, starts: Sequence[Var], ranges: dict[tuple[str, int], Var], acc: Var | None, dims: Sequence[str]) -> Var:
        m, k, o = dims
        return body.dot("product", self.tile(body, (m, k), starts, ranges), self.tile(body, (k, o), starts, ranges), k, acc)

    def statements(self, body: Body, starts: Sequence[Var], ranges: dict[tuple[str, int], Var], acc: Var, depth: int) -> Var:
        for _ in range(self.random.randint(2, 5)):
            match self.random.choice(["dot", "dot", "dot", "store", "store", "for", "when"]):
                case "store":
                    value = body.fill("value", self.random.choice([-1.0, 0.0, 2.0]), "f16", i=TILE, j=TILE)
                    i, j = (body.range(dim, TILE, self.random.choice(starts)) for dim in "ij")
                    body.store(self.buffers["b"], value, i=i, j=j)
                case "for" if depth < 2:
                    index, inner, held, done = scalar("index"), Body(), Var("acc", acc.type), Var("acc", acc.type)
                    after = self.statements(inner, [*starts, index], dict(ranges), held, depth + 1)
                    body.statements.append(
                        For("k", index, self.zero, self.bounds["i"], TILE, (Carried(acc, held, after, done),), tuple(inner.statements))
                    )
                    acc = done
                case "when" if depth < 2:
                    inner, out = Body(), Var("acc", acc.type)
                    after = self.statements(inner, starts, dict(ranges), acc, depth + 1)
                    condition = body.let("condition", "compare", self.random.choice(starts), self.half, attr=("ge",))
                    if after is acc:
                        continue
                    body.statements.append(When(condition, (Either(after, acc, out),), tuple(inner.statements)))
                    acc = out
                case _:
                    acc = self.dot(body, starts, ranges, acc, ("m", "k", "o"))
        return acc

    def program(self) -> Program:
        top = self.body
        acc = self.statements(top, self.starts, {}, self.acc, 0)
        m, o = (top.range(dim, TILE, self.zero) for dim in "mo")
        top.store(self.result, acc, n=self.zero, p=m, q=o)
        body = tuple(top.statements)
        grid = (GridDim("i", extent("1"), TILE, self.start),)
        given = tuple(self.bounds.items())
        kernel = Kernel("kernel", (*self.buffers.values(), self.result), ("b", "y"), (), given, grid, body, 4, 2)
        x, w = (Buffer(name, ("i", "j"), "f16", (SIZE, 1)) for name in "xw")
        copy = Body()
        i, j = (copy.range(dim, SIZE, copy.constant(0, "index", "zero")) for dim in "ij")
        copy.store(w, copy.load("x_tile", x, i=i, j=j), i=i, j=j)
        first = Kernel("copy", (x, w), ("w",), (), (), (), tuple(copy.statements))
        sizes = tuple((axis, extent(str(size))) for axis, size in (("i", SIZE), ("j", SIZE), ("n", 1), ("p", TILE), ("q", TILE)))
        names = [self.random.choice(["x", "w"]), "w", self.random.choice(["x", "w"]), "y"]
        steps = (Launch("copy", ("x", "w")), Launch("kernel", tuple(names)))
        return Program("drawn", (x,), (w, self.result), ("i j", "i j", "n p q"), sizes, (first, kernel), steps)


@pytest.mark.parametrize("seed", range(24))
def test_random_bodies(seed: int) -> None:
    """Sums of few small integers, which f16 and f32 hold exactly."""
    made = Drawn(seed).program()
    x = np.random.default_rng(seed).integers(-1, 2, (SIZE, SIZE)).astype(np.float64)
    expected = run_program(made, [x], {})
    found = execute(made, [x], {})
    np.testing.assert_array_equal(np.asarray(found[0], np.float64), expected[0])
    np.testing.assert_array_equal(np.asarray(found[1], np.float64), expected[1])
