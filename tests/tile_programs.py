"""
Tile programs written by hand: what a scheduler would make of small problems, for tests of the levels below it.

Each function returns the program; `expected` in `CASES` computes the same in numpy from inputs in memory layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleave.extents import extent
from cleave.schedule.program import (
    Allocate,
    Buffer,
    Carried,
    Dot,
    Either,
    For,
    GridDim,
    Kernel,
    Last,
    Launch,
    Let,
    LibraryCall,
    Load,
    Program,
    Range,
    Reduce,
    Statement,
    Store,
    TileType,
    Var,
    When,
)


class Body:
    """Appends statements with inferred types."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    def let(self, name: str, kind: str, *args: Var, attr: tuple[Any, ...] = (), dtype: str = "", dims: Any = None) -> Var:
        sizes: dict[str, int] = {}
        for arg in args:
            sizes.update(arg.type.dims)
        found = dtype or ("i1" if kind == "compare" else args[-1].type.dtype)
        out = Var(name, TileType(tuple(dims if dims is not None else sizes.items()), found))
        self.statements.append(Let(out, kind, args, attr))
        return out

    def constant(self, value: float, dtype: str, name: str = "c") -> Var:
        return self.let(name, "constant", attr=(value,), dtype=dtype, dims=())

    def fill(self, name: str, value: float, dtype: str, **dims: int) -> Var:
        return self.let(name, "constant", attr=(value,), dtype=dtype, dims=dims.items())

    def range(self, dim: str, size: int, start: Var) -> Var:
        out = Var(dim, TileType(((dim, size),), "index"))
        self.statements.append(Range(out, start))
        return out

    def load(
        self, name: str, buffer: Buffer, check: tuple[str, ...] = (), other: float | None = None, fresh: bool = False, **index: Var
    ) -> Var:
        sizes: dict[str, int] = {}
        for var in index.values():
            sizes.update(var.type.dims)
        out = Var(name, TileType(tuple(sizes.items()), buffer.dtype))
        self.statements.append(Load(out, buffer, tuple(index.items()), check, other, fresh=fresh))
        return out

    def store(self, buffer: Buffer, value: Var, check: tuple[str, ...] = (), **index: Var) -> None:
        self.statements.append(Store(buffer, tuple(index.items()), value, check))

    def reduce(self, name: str, kind: str, value: Var, dim: str) -> Var:
        out = Var(name, TileType(tuple(pair for pair in value.type.dims if pair[0] != dim), value.type.dtype))
        self.statements.append(Reduce(out, kind, value, dim))
        return out

    def dot(self, name: str, a: Var, b: Var, over: str, acc: Var | None = None, precision: str = "ieee") -> Var:
        out = Var(name, TileType((*a.type.dims[:-1], b.type.dims[-1]), "f32"))
        self.statements.append(Dot(out, a, b, over, acc, precision))
        return out


def scalar(name: str, dtype: str = "index") -> Var:
    """A fresh scalar."""
    return Var(name, TileType((), dtype))


def matmul(dtype: str = "f16", tile: int = 16) -> Program:
    """c[m, n] = sum over k of a[m, k] * b[k, n], every axis ragged, masked loads, a loop over k carrying the accumulator."""
    a = Buffer("a", ("m", "k"), dtype, (None, 1))
    b = Buffer("b", ("k", "n"), dtype, (None, 1))
    c = Buffer("c", ("m", "n"), dtype, (None, 1))
    size = {axis: scalar(f"{axis}_size") for axis in ("m", "n", "k")}
    m0, n0, k0 = scalar("m_start"), scalar("n_start"), scalar("k_start")
    top, inner = Body(), Body()
    m, n = top.range("m", tile, m0), top.range("n", tile, n0)
    zero = top.constant(0, "index", "zero")
    acc = top.fill("acc", 0.0, "f32", m=tile, n=tile)
    k = inner.range("k", tile, k0)
    left = inner.load("a_tile", a, ("m", "k"), 0.0, m=m, k=k)
    right = inner.load("b_tile", b, ("k", "n"), 0.0, k=k, n=n)
    held = Var("acc", acc.type)
    total = inner.dot("acc_next", left, right, "k", held)
    done = Var("acc_sum", acc.type)
    top.statements.append(For("k", k0, zero, size["k"], tile, (Carried(acc, held, total, done),), tuple(inner.statements)))
    top.store(c, top.let("result", "cast", done, dtype=dtype), ("m", "n"), m=m, n=n)
    grid = tuple(GridDim(axis, extent(f"ceildiv({axis}, {tile})"), tile, start) for axis, start in (("n", n0), ("m", m0)))
    kernel = Kernel("matmul", (a, b, c), ("c",), tuple(size.items()), tuple(size.items()), grid, tuple(top.statements), 4, 2)
    sizes = tuple((axis, extent(axis)) for axis in ("m", "n", "k"))
    return Program("matmul", (a, b), (c,), ("m k", "k n", "m n"), sizes, (kernel,), (Launch("matmul", ("a", "b", "c")),))


def rows(dtype: str = "f32", width: int = 64) -> Program:
    """y[b, n] = exp(x - max) / sum of it: one row a program, the whole ragged row in a tile."""
    x = Buffer("x", ("b", "n"), dtype, (None, 1))
    y = Buffer("y", ("b", "n"), dtype, (None, 1))
    size, row = scalar("n_size"), scalar("b_start")
    top = Body()
    n = top.range("n", width, top.constant(0, "index", "zero"))
    value = top.let("x_f32", "cast", top.load("x_tile", x, ("n",), float("-inf"), b=row, n=n), dtype="f32")
    shifted = top.let("shifted", "sub", value, top.reduce("peak", "max", value, "n"))
    p = top.let("p", "exp2", top.let("scaled", "mul", shifted, top.constant(1.4426950408889634, "f32", "log2e")))
    result = top.let("result", "div", p, top.reduce("total", "sum", p, "n"))
    top.store(y, top.let("narrow", "cast", result, dtype=dtype), ("n",), b=row, n=n)
    kernel = Kernel("rows", (x, y), ("y",), (("n", size),), (("n", size),), (GridDim("b", extent("b"), 1, row),), tuple(top.statements))
    sizes = (("b", extent("b")), ("n", extent("n")))
    return Program("rows", (x,), (y,), ("b n", "b n"), sizes, (kernel,), (Launch("rows", ("x", "y")),))


def streamed(dtype: str = "f16", tile: int = 16, width: int = 16) -> Program:
    """
    Grouped heads, causal, one loop over keys carrying maximum, sum and accumulator; (r m) packed into one dimension.

    q is laid out "b (g r) m d", k and v "b g n d"; r = 2 and d = `width` are static, m and n dynamic.
    """
    group, scale = 2, 0.25 * 1.4426950408889634
    q = Buffer("q", ("b", "g", "r", "m", "d"), dtype, (None, None, None, width, 1), divisor=width)
    k = Buffer("k", ("b", "g", "n", "d"), dtype, (None, None, width, 1), divisor=width)
    v = Buffer("v", ("b", "g", "n", "e"), dtype, (None, None, width, 1), divisor=width)
    o = Buffer("o", ("b", "g", "r", "m", "e"), dtype, (None, None, None, width, 1), divisor=width)
    msize, nsize = scalar("m_size"), scalar("n_size")
    b0, g0, rm0, n0 = scalar("b"), scalar("g"), scalar("r_m_start"), scalar("n_start")
    top, inner = Body(), Body()
    rsize = top.constant(group, "index", "r_size")
    zero = top.constant(0, "index", "zero")
    rm = top.range("r_m", tile, rm0)
    r, m = top.let("r", "floordiv", rm, msize, dtype="index"), top.let("m", "mod", rm, msize, dtype="index")
    d = top.range("d", width, zero)
    e = top.range("e", width, zero)
    qt = top.load("q_tile", q, ("r",), 0.0, b=b0, g=g0, r=r, m=m, d=d)
    peak0 = top.fill("peak", float("-inf"), "f32", r_m=tile)
    sum0 = top.fill("total", 0.0, "f32", r_m=tile)
    acc0 = top.fill("acc", 0.0, "f32", r_m=tile, e=width)
    n = inner.range("n", tile, n0)
    kt = inner.load("k_tile", k, ("n",), 0.0, b=b0, g=g0, d=d, n=n)
    s = inner.let("s", "mul", inner.dot("scores", qt, kt, "d"), inner.constant(scale, "f32", "scale"))
    live = inner.let("live", "and", inner.let("past", "compare", n, m, attr=("le",)), inner.let("in", "compare", n, nsize, attr=("lt",)))
    s = inner.let("masked", "select", live, s, inner.constant(float("-inf"), "f32", "minus_inf"), dims=(("r_m", tile), ("n", tile)))
    peak, total, acc = Var("peak", peak0.type), Var("total", sum0.type), Var("acc", acc0.type)
    new = inner.let("peak_next", "max", peak, inner.reduce("row_max", "max", s, "n"))
    alpha = inner.let("alpha", "exp2", inner.let("moved", "sub", peak, new))
    p = inner.let("p", "exp2", inner.let("shifted", "sub", s, new))
    total_next = inner.let("total_next", "add", inner.let("kept", "mul", total, alpha), inner.reduce("row_sum", "sum", p, "n"))
    vt = inner.load("v_tile", v, ("n",), 0.0, b=b0, g=g0, n=n, e=e)
    acc_next = inner.dot("acc_next", inner.let("p_cast", "cast", p, dtype=dtype), vt, "n", inner.let("acc_kept", "mul", acc, alpha))
    outs = [Var("peak_last", peak0.type), Var("total_last", sum0.type), Var("acc_last", acc0.type)]
    carried = (
        Carried(peak0, peak, new, outs[0]),
        Carried(sum0, total, total_next, outs[1]),
        Carried(acc0, acc, acc_next, outs[2]),
    )
    top.statements.append(For("n", n0, zero, nsize, tile, carried, tuple(inner.statements)))
    result = top.let("result", "cast", top.let("quotient", "div", outs[2], outs[1]), dtype=dtype)
    top.store(o, result, ("r",), b=b0, g=g0, r=r, m=m, e=e)
    grid = (
        GridDim("r_m", extent(f"ceildiv({group}*m, {tile})"), tile, rm0),
        GridDim("g", extent("g"), 1, g0),
        GridDim("b", extent("b"), 1, b0),
    )
    extents = (("n", nsize), ("m", msize), ("r", rsize))
    kernel = Kernel("streamed", (q, k, v, o), ("o",), (("m", msize), ("n", nsize)), extents, grid, tuple(top.statements))
    sizes = tuple(
        (axis, extent(size)) for axis, size in {"b": "b", "g": "g", "r": group, "m": "m", "n": "n", "d": width, "e": width}.items()
    )
    layouts = ("b (g r) m d", "b g n d", "b g n e", "b (g r) m e")
    return Program("streamed", (q, k, v), (o,), layouts, sizes, (kernel,), (Launch("streamed", ("q", "k", "v", "o")),))


def split_sum(chunk: int = 16) -> Program:
    """z[m] = sum over n of x[m, n]^2 in two kernels: partial sums of chunks into a workspace, then their sum."""
    x = Buffer("x", ("m", "n"), "f32", (None, 1))
    z = Buffer("z", ("m",), "f32", (1,))
    partial = Buffer("partial", ("s", "m"), "f32", (None, 1))
    msize, nsize, ssize = scalar("m_size"), scalar("n_size"), scalar("s_size")
    m0, s0, loop = scalar("m_start"), scalar("s"), scalar("s_index")
    first = Body()
    m = first.range("m", 8, m0)
    n = first.range("n", chunk, first.let("n_start", "mul", s0, first.constant(chunk, "index", "chunk")))
    value = first.load("x_tile", x, ("m", "n"), 0.0, m=m, n=n)
    squares = first.reduce("squares", "sum", first.let("square", "mul", value, value), "n")
    first.store(partial, squares, ("m",), s=s0, m=m)
    split = (GridDim("m", extent("ceildiv(m, 8)"), 8, m0), GridDim("s", extent("s"), 1, s0))
    one = Kernel(
        "parts", (x, partial), ("partial",), (("m", msize), ("n", nsize)), (("m", msize), ("n", nsize)), split, tuple(first.statements)
    )
    second, body = Body(), Body()
    m = second.range("m", 8, m0)
    start = second.fill("sum", 0.0, "f32", m=8)
    held, done = Var("sum", start.type), Var("sum_all", start.type)
    more = body.let("sum_next", "add", held, body.load("part", partial, ("m",), 0.0, s=loop, m=m))
    carried = (Carried(start, held, more, done),)
    second.statements.append(For("s", loop, second.constant(0, "index", "zero"), ssize, 1, carried, tuple(body.statements)))
    second.store(z, done, ("m",), m=m)
    two = Kernel("combine", (partial, z), ("z",), (("m", msize), ("s", ssize)), (("m", msize),), split[:1], tuple(second.statements))
    sizes = (("m", extent("m")), ("n", extent("n")), ("s", extent(f"ceildiv(n, {chunk})")))
    steps = (Allocate(partial), Launch("parts", ("x", "partial")), Launch("combine", ("partial", "z")))
    return Program("split_sum", (x,), (z,), ("m n", "m"), sizes, (one, two), steps)


def last_sum(chunk: int = 16) -> Program:
    """z[m] as in `split_sum`, in one kernel: the last program of a tile of rows to arrive sums the partial sums."""
    x = Buffer("x", ("m", "n"), "f32", (None, 1))
    z = Buffer("z", ("m",), "f32", (1,))
    partial = Buffer("partial", ("s", "m"), "f32", (None, 1))
    arrived = Buffer("arrived", ("tile",), "i32", (1,))
    msize, nsize, ssize = scalar("m_size"), scalar("n_size"), scalar("s_size")
    m0, s0, loop = scalar("m_start"), scalar("s"), scalar("s_index")
    first, second, body = Body(), Body(), Body()
    m = first.range("m", 8, m0)
    n = first.range("n", chunk, first.let("n_start", "mul", s0, first.constant(chunk, "index", "chunk")))
    value = first.load("x_tile", x, ("m", "n"), 0.0, m=m, n=n)
    squares = first.reduce("squares", "sum", first.let("square", "mul", value, value), "n")
    first.store(partial, squares, ("m",), s=s0, m=m)
    tile = first.let("tile", "floordiv", m0, first.constant(8, "index", "eight"))
    start = second.fill("sum", 0.0, "f32", m=8)
    held, done = Var("sum", start.type), Var("sum_all", start.type)
    more = body.let("sum_next", "add", held, body.load("part", partial, ("m",), 0.0, fresh=True, s=loop, m=m))
    carried = (Carried(start, held, more, done),)
    second.statements.append(For("s", loop, second.constant(0, "index", "zero"), ssize, 1, carried, tuple(body.statements)))
    second.store(z, done, ("m",), m=m)
    first.statements.append(Last(arrived, (("tile", tile),), ssize, tuple(second.statements)))
    kernel = Kernel(
        "parts",
        (x, partial, arrived, z),
        ("partial", "arrived", "z"),
        (("m", msize), ("n", nsize), ("s", ssize)),
        (("m", msize), ("n", nsize)),
        (GridDim("m", extent("ceildiv(m, 8)"), 8, m0), GridDim("s", extent("s"), 1, s0)),
        tuple(first.statements),
    )
    sizes = (("m", extent("m")), ("n", extent("n")), ("s", extent(f"ceildiv(n, {chunk})")), ("tile", extent("ceildiv(m, 8)")))
    steps = (Allocate(partial), Allocate(arrived, True), Launch("parts", ("x", "partial", "arrived", "z")))
    return Program("last_sum", (x,), (z,), ("m n", "m"), sizes, (kernel,), steps)


def triangle(tile: int = 16) -> Program:
    """z[m] = the mean of x[m, 0] to x[m, m]: in a loop over columns, of which only the tile on the diagonal chooses and counts lanes."""
    x, z = Buffer("x", ("m", "n"), "f32", (None, 1)), Buffer("z", ("m",), "f32", (1,))
    msize, nsize, m0, n0 = scalar("m_size"), scalar("n_size"), scalar("m_start"), scalar("n_start")
    top, body, inner = Body(), Body(), Body()
    m = top.range("m", tile, m0)
    size, zero = top.constant(tile, "index", "tile"), top.constant(0, "index", "zero")
    stop = top.let("stop", "min", top.let("below", "add", m0, size), nsize)
    none, ones = top.constant(0.0, "f32", "none"), top.fill("ones", 1.0, "f32", m=tile, n=tile)
    starts = top.fill("total", 0.0, "f32", m=tile), top.fill("count", 0.0, "f32", m=tile)
    n = body.range("n", tile, n0)
    value = body.load("x_tile", x, ("m", "n"), 0.0, m=m, n=n)
    edge = body.let("edge", "compare", n0, m0, attr=("ge",))
    live = inner.let("live", "compare", n, m, attr=("le",))
    chosen = [inner.let("chosen", "select", live, part, none, dims=part.type.dims) for part in (value, ones)]
    parts = [Either(some, part, Var("part", part.type)) for some, part in zip(chosen, (value, ones), strict=True)]
    body.statements.append(When(edge, tuple(parts), tuple(inner.statements)))
    carried: list[Carried] = []
    for start, part in zip(starts, parts, strict=True):
        held, done = Var(start.name, start.type), Var(f"{start.name}_all", start.type)
        carried.append(Carried(start, held, body.let("next", "add", held, body.reduce("sum", "sum", part.out, "n")), done))
    top.statements.append(For("n", n0, zero, stop, tile, tuple(carried), tuple(body.statements)))
    top.store(z, top.let("mean", "div", *(entry.out for entry in carried)), ("m",), m=m)
    extents = (("m", msize), ("n", nsize))
    grid = (GridDim("m", extent(f"ceildiv(m, {tile})"), tile, m0),)
    kernel = Kernel("triangle", (x, z), ("z",), extents, extents, grid, tuple(top.statements), 4, 2)
    sizes = (("m", extent("m")), ("n", extent("n")))
    return Program("triangle", (x,), (z,), ("m n", "m"), sizes, (kernel,), (Launch("triangle", ("x", "z")),))


def library() -> Program:
    """y = relu(a . b): the product by the library into a workspace, the rest by a kernel."""
    a, b = Buffer("a", ("m", "k"), "f32", (None, 1)), Buffer("b", ("n", "k"), "f32", (None, 1))
    y, product = Buffer("y", ("m", "n"), "f32", (None, 1)), Buffer("product", ("m", "n"), "f32", (None, 1))
    nsize, m0, n0 = scalar("n_size"), scalar("m"), scalar("n_start")
    top = Body()
    n = top.range("n", 32, n0)
    value = top.load("x", product, ("n",), None, m=m0, n=n)
    top.store(y, top.let("result", "relu", value), ("n",), m=m0, n=n)
    grid = (GridDim("n", extent("ceildiv(n, 32)"), 32, n0), GridDim("m", extent("m"), 1, m0))
    kernel = Kernel("positive", (product, y), ("y",), (("n", nsize),), (("n", nsize),), grid, tuple(top.statements), 1)
    sizes = tuple((axis, extent(axis)) for axis in ("m", "n", "k"))
    steps = (Allocate(product), LibraryCall("matmul", "product", ("a", "b"), ("k",)), Launch("positive", ("product", "y")))
    return Program("library", (a, b), (y,), ("m k", "n k", "m n"), sizes, (kernel,), steps)


@dataclass(frozen=True, slots=True)
class Case:
    """A program, the symbols to run it at, shapes of its inputs and what it should compute."""

    program: Callable[[], Program]
    symbols: Mapping[str, int]
    shapes: tuple[tuple[int, ...], ...]
    expected: Callable[..., np.ndarray[Any, Any]]

    def inputs(self, seed: int = 0) -> list[np.ndarray[Any, Any]]:
        """Random inputs in memory layout, representable in float16."""
        rng = np.random.default_rng(seed)
        return [rng.standard_normal(shape).astype(np.float16).astype(np.float64) for shape in self.shapes]


def _normalized(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def _causal(q: np.ndarray[Any, Any], k: np.ndarray[Any, Any], v: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    k, v = np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1)
    s = 0.25 * np.einsum("bhmd,bhnd->bhmn", q, k)
    s = np.where(np.arange(s.shape[3])[None, :] <= np.arange(s.shape[2])[:, None], s, -np.inf)
    return np.einsum("bhmn,bhne->bhme", _normalized(s), v)


CASES: Mapping[str, Case] = {
    "matmul": Case(matmul, {"m": 37, "n": 21, "k": 50}, ((37, 50), (50, 21)), lambda a, b: a @ b),
    "rows": Case(rows, {"b": 3, "n": 45}, ((3, 45),), _normalized),
    "streamed": Case(streamed, {"b": 1, "g": 2, "m": 13, "n": 37}, ((1, 4, 13, 16), (1, 2, 37, 16), (1, 2, 37, 16)), _causal),
    "split_sum": Case(split_sum, {"m": 11, "n": 50}, ((11, 50),), lambda x: (x * x).sum(1)),
    "last_sum": Case(last_sum, {"m": 11, "n": 50}, ((11, 50),), lambda x: (x * x).sum(1)),
    "triangle": Case(triangle, {"m": 37, "n": 37}, ((37, 37),), lambda x: np.tril(x).sum(1) / np.arange(1, 38)),
    "library": Case(library, {"m": 3, "n": 40, "k": 7}, ((3, 7), (40, 7)), lambda a, b: np.maximum(a @ b.T, 0)),
}
