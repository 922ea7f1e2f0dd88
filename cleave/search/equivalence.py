"""
Whether two programs compute the same.

The law: programs are *equivalent* when they agree in every round of `verify` and float64 finds no difference either; they are
*not* equivalent when there are concrete inputs on which float64 results differ by more than rounding; anything else is
undecided: fields tell two values apart that no inputs tell apart (facts that need counting, data movement the algebra does
not see through), or nothing is defined anywhere.

A difference counts as one of rounding where it halves in extended precision (where numpy has it), or is no larger than a
thousand times what an error of 1e-13 in the inputs causes. Casts between floats are the identity. Where one result is not a
number, the other may be infinite; where exponentials could overflow, nothing is concluded from infinities.

A shift may have any value, so programs with shifts are equivalent when they agree whatever unrelated values those have: in fields every
shift is an argument of its own. A guarded quotient is one there, as a division by zero decides nothing; float64 knows both.

Axes of fixed extent are made shorter for a counterexample unless their number of elements matters (`counted_axes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike

from ..algebra.probes import Probe, counted_axes, random_inputs, results, structured_axes
from ..extents import extent
from ..graph import FLOATS, Axis, Graph, Input
from ..layouts import layout_axes
from ..reference.dtypes import Array
from .chunk_order import together
from .matching import matched, sizes_text
from .split import lone_chunk
from .verify import Verifier

SIZES = ((2,), (1,), (3, 2, 4), (2, 5, 3, 4), (7, 4, 6, 3, 5))
"""The extents that axes get in turn, one kind of extent after the other; the first counterexample found is the smallest."""

SCALES = (1.0, 1e-3, 4.0, 0.5)
"""The size of inputs; with 1e-3 no exponential overflows and an epsilon matters, the last are positive."""

TOLERANCE = 1e-7
NOISE = 1e-13
MOST_ELEMENTS = 1 << 22


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Inputs on which a result differs: `index` is the element, in the order of the axes of `results`."""

    graph: Graph
    sizes: Mapping[str, int]
    inputs: tuple[Array, ...]
    output: int
    axes: tuple[str, ...]
    index: tuple[int, ...]
    results: tuple[Array, Array]

    def text(self) -> str:
        """Sizes, inputs and both results, a line each or as many as the arrays take."""
        first, second = (float(array[self.index]) for array in self.results)
        place = ", ".join(f"{axis} = {i}" for axis, i in zip(self.axes, self.index, strict=True))
        lines = [f"result {self.output} differs{f' at {place}' if place else ''}: {first:.9g} and {second:.9g}"]
        used = {axis for entry in self.graph.inputs for axis in entry.axes} | {axis for op in self.graph.ops for axis in op.axes}
        declared = {axis.name: axis.extent for axis in self.graph.axes}
        sizes = {axis: size for axis, size in self.sizes.items() if axis in used}
        lines += [f"sizes: {sizes_text(declared, sizes)}"] if sizes else []
        for entry, array in zip(self.graph.inputs, self.inputs, strict=True):
            lines.append(_array(f"{entry.name} [{', '.join(entry.axes)}]", array))
        over = f"result {self.output} [{', '.join(self.axes)}]"
        return "\n".join([*lines, _array(f"first {over}", self.results[0]), _array(f"second {over}", self.results[1])])


@dataclass(frozen=True, slots=True)
class Verdict:
    """`equivalent` is None where undecided; `reason` says why, `counterexample` is there if and only if not equivalent."""

    equivalent: bool | None
    reason: str = ""
    counterexample: Counterexample | None = None


def equivalence(left: Graph, right: Graph, seed: int = 0) -> Verdict:
    """
    Whether two programs compute the same function of their arguments.

    Raises: Mismatch where they take or give different tensors.
    """
    first, second = matched(left, right)
    found, compared = search(first, second, seed)
    if found is not None:
        return Verdict(False, "float64 results differ", found)
    first, second = together(first), together(second)
    alone = lone_chunk(first) or lone_chunk(second)
    if alone is not None:
        return Verdict(None, f"axis '{alone}' is reduced without the axis that counts its chunks, which fields cannot express")
    first, second = guards_dropped(first), guards_dropped(second)
    free = shifts_free(first, 0), shifts_free(second, len(first.ops))
    problem = Verifier(free[0], seed).problem(free[1])
    # What is known of values is read off the first program: the other one may show more.
    if problem is not None and Verifier(free[1], seed).problem(free[0]) is not None:
        for graph, loose in zip((first, second), free, strict=True):
            if loose is not graph and Verifier(graph, seed).problem(loose) is not None:
                return Verdict(None, f"@{graph.name} depends on the value of a shift, which may be any")
        return Verdict(None, f"{problem} in finite fields, but no floats were found that tell the two apart")
    if not compared:
        return Verdict(None, "no inputs were found on which both have a finite value")
    return Verdict(True)


def guards_dropped(graph: Graph) -> Graph:
    """The graph with plain quotients for guarded ones, which are the same wherever nothing is divided by zero."""
    ops = [replace(op, attr=tuple(part for part in op.attr if part != "guarded")) if op.kind == "div" else op for op in graph.ops]
    return replace(graph, ops=tuple(ops)) if any("guarded" in op.attr for op in graph.ops) else graph


def shifts_free(graph: Graph, skipped: int) -> Graph:
    """The graph with an argument of its own for every shift; `skipped` arguments before those are none of it."""
    if not any(op.kind == "shift" for op in graph.ops):
        return graph
    inputs = [*graph.inputs, *(Input(f"unused {number}", (), "f32", "") for number in range(skipped))]
    ops = list(graph.ops)
    for position, op in enumerate(ops):
        if op.kind == "shift":
            ops[position] = replace(op, kind="input", args=(), attr=(len(inputs),))
            inputs.append(Input(f"shift {position}", op.axes, op.dtype, " ".join(op.axes)))
    return replace(graph, inputs=tuple(inputs), ops=tuple(ops))


def counterexample(left: Graph, right: Graph, seed: int = 0) -> Counterexample | None:
    """Inputs on which two programs differ, None if none are found. The graphs are as `matched` gives them."""
    return search(left, right, seed)[0]


def search(left: Graph, right: Graph, seed: int = 0) -> tuple[Counterexample | None, bool]:
    """A counterexample, or whether any two finite results were compared."""
    compared = False
    for number, probes in enumerate(_probes(left, right)):
        for kind, scale in enumerate(SCALES):
            rng = np.random.default_rng([seed, number, kind])
            inputs = _inputs(probes[0], rng, scale, positive=kind == len(SCALES) - 1)
            found, some = _difference(probes, inputs, overflows=scale > 1e-2, rng=rng)
            compared = compared or some
            if found is not None:
                output, index, values = found
                axes = left.ordered(layout_axes(left.outputs[output].layout))
                sizes = probes[0].graph.sizes(probes[0].symbols)
                return Counterexample(left, sizes, tuple(inputs), output, axes, index, values), True
    return None, compared


def _probes(left: Graph, right: Graph) -> Iterator[tuple[Probe, Probe]]:
    """Both programs at small sizes."""
    kept = frozenset((*counted_axes((left, right)), *structured_axes(left), *structured_axes(right)))
    seen: set[tuple[tuple[str, int], ...]] = set()
    for sizes in SIZES:
        symbols, axes = small(left, sizes, kept)
        pair = tuple(Probe(replace(graph, axes=axes), symbols) for graph in (left, right))
        found = tuple(pair[0].graph.sizes(symbols).items())
        if found not in seen and max(probe.elements() for probe in pair) <= MOST_ELEMENTS:
            seen.add(found)
            yield pair[0], pair[1]


def small(graph: Graph, sizes: Sequence[int], kept: frozenset[str]) -> tuple[dict[str, int], tuple[Axis, ...]]:
    """
    Small values for symbols and small extents for axes; equal extents stay equal, and those of `kept` as they are.

    A split has two or three chunks.
    """
    outers = {axis.chunk_of[1] for axis in graph.axes if axis.chunk_of is not None}
    chunks = {axis.extent.text for axis in graph.axes if axis.name in outers}
    symbols: dict[str, int] = {}
    for entry in graph.symbols:
        size = min(max(sizes), 3) if entry.name in chunks else sizes[len(symbols) % len(sizes)]
        symbols[entry.name] = entry.multiple_of * -(-size // entry.multiple_of)
    chosen = {axis.extent.text: axis.extent.constant for axis in graph.axes if axis.name in kept}
    axes: dict[str, Axis] = {}
    for axis in graph.axes:
        if axis.extent.constant is not None:
            size = chosen.setdefault(axis.extent.text, sizes[(len(chosen) + len(symbols)) % len(sizes)])
            axes[axis.name] = replace(axis, extent=extent(axis.extent.constant if size is None else size))
        else:
            axes[axis.name] = axis
    for axis in graph.axes:
        if axis.chunk_of is not None:
            whole, outer = (axes[name].extent for name in axis.chunk_of)
            axes[axis.name] = replace(axis, extent=extent(f"ceildiv({whole}, {outer})"))
    return symbols, tuple(axes[axis.name] for axis in graph.axes)


def _inputs(probe: Probe, rng: np.random.Generator, scale: float, positive: bool) -> list[Array]:
    """Numbers with few digits, none of them 0; integers and booleans as they come."""
    out: list[Array] = []
    for entry, array in zip(probe.graph.inputs, random_inputs(probe, rng, 1.0), strict=True):
        if entry.dtype in FLOATS:
            array = np.round(array * 8.0) / 8.0
            array = np.where(array == 0.0, 0.125, array) * scale
        out.append(np.abs(array) if positive and entry.dtype in FLOATS else array)
    return out


def _difference(
    probes: tuple[Probe, Probe], inputs: Sequence[Array], overflows: bool, rng: np.random.Generator
) -> tuple[tuple[int, tuple[int, ...], tuple[Array, Array]] | None, bool]:
    """The result, element and values that differ most, and whether anything could be compared."""
    values = [_run(probe, inputs) for probe in probes]
    doubt: _Doubt | None = None
    compared = False
    for output, (first, second) in enumerate(zip(*values, strict=True)):
        finite = np.isfinite(first) & np.isfinite(second)
        compared = compared or bool(finite.any())
        wrong = _apart(first, second, finite)
        if not overflows:
            wrong |= _unlike(first, second)
        if not wrong.any():
            continue
        doubt = doubt or _Doubt(probes, inputs, rng)
        gap = np.abs(np.where(finite, first, 0.0) - np.where(finite, second, 0.0))
        wrong &= ~finite | ~doubt.rounding(output, values, gap)
        if wrong.any():
            worst = np.where(wrong, np.where(finite, gap, np.inf), -1.0)
            index = tuple(int(i) for i in np.unravel_index(int(np.argmax(worst)), worst.shape))
            return (output, index, (first, second)), True
    return None, compared


class _Doubt:
    """The results in extended precision and on inputs that are slightly off: what a difference must survive."""

    def __init__(self, probes: tuple[Probe, Probe], inputs: Sequence[Array], rng: np.random.Generator) -> None:
        moved = [array * (1 + NOISE * rng.uniform(-1, 1, array.shape)) if array.dtype.kind == "f" else array for array in inputs]
        self.moved = [_run(probe, moved) for probe in probes]
        self.longer = [_run(probe, inputs, np.longdouble) for probe in probes]

    def rounding(self, output: int, values: Sequence[Sequence[Array]], gap: Array) -> Array:
        """Where a gap between finite results may come from rounding."""
        with np.errstate(all="ignore"):
            exact = np.abs(self.longer[0][output] - self.longer[1][output])
            shaken = sum(np.abs(a[output] - b[output]) for a, b in zip(values, self.moved, strict=True))
            return ~((exact > gap / 2) & (gap > 1000 * shaken))


def _unlike(first: Array, second: Array) -> Array:
    """Where one result is finite and the other not, or both are infinite with different signs."""
    infinite = np.isinf(first) & np.isinf(second) & (first != second)
    return (np.isfinite(first) != np.isfinite(second)) | infinite


def _apart(first: Array, second: Array, finite: Array) -> Array:
    """Where two finite results differ by more than the tolerance, relative to themselves or to the typical element."""
    with np.errstate(all="ignore"):
        a, b = np.where(finite, first, 0.0), np.where(finite, second, 0.0)
        typical = float(np.sqrt(np.mean(a * a))) if a.size else 0.0
        return np.abs(a - b) > TOLERANCE * np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-3 * typical)


def _run(probe: Probe, inputs: Sequence[Array], dtype: DTypeLike = np.float64) -> list[Array]:
    with np.errstate(all="ignore"):
        return results(probe, inputs, dtype)


def _array(name: str, array: Array) -> str:
    shown = np.array2string(np.asarray(array), precision=9, separator=", ", prefix=f"{name} = ", threshold=200, max_line_width=120)
    return f"{name} = {shown}"
