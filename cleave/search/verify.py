"""
Verification: whether two graphs compute the same, asked again from scratch.

The law: no graph is handed out on the word of the e-graph. Both programs are evaluated operation by operation at draws the
search has not seen: other seeds, other numbers of points, one point an axis, ragged chunks, and once with counting sums,
where a sum adds up and the symbols are small integers. They must agree in every sample of every round.

How likely two different values share residues, the argument of Schwartz and Zippel. Take two programs and a sample; draws are
independent and uniform.
- *Arithmetic.* Results are quotients of polynomials in the draws (elements, weights of axes, symbols). Cross-multiplied, their
  difference is a polynomial; unless it vanishes as such, it has value 0 with probability at most d/p, d being its degree. A
  product adds degrees and a sum takes the largest once denominators are common: for graphs of a hundred operations d stays
  below 1000. The primes are fixed, so a difference all of whose coefficients a prime divides would pass in that field; values
  are compared on all levels that both have, and no program has such constants by accident.
- *Exponentials.* exp(f) is g^f with f from the level below, whose draws are independent of this level's: unless two different
  exponents meet (at most k^2 d/p for k of them), the g^f are k different elements of a subgroup of p' elements, p' the prime
  below; a polynomial in them is 0 with probability at most d/p'.
- *Functions* are keyed 64-bit hashes, mixed to residues: different arguments give independent residues, up to 2^-64.
- *Comparisons and maxima* are one random bit for each element whose operands differ, so two masks agree on an element with
  probability 1/2, and what counts is the number of elements. The rounds have 3 samples of 1, 2, 3, 3 and 2 points an axis: 81
  elements over two axes, 33 over one. A wrong mask over one axis passes with 2^-33, over two with 2^-81.

So with the least prime p_0 of a tower, a wrong graph without masks passes with at most (d/p_0)^15 for d = 1000: 2^-280 in
`SHORT_TOWER` (p_0 > 2^28), 2^-239 in `LONG_TOWER` (2^25), 2^-165 in `LOG_TOWER` (2^21). A search compares fewer than 100 graphs,
which adds 7 to the exponents.

The search itself is less strict, as it only proposes. Classes are told apart by 3 samples on the top level: with N classes there
are N^2/2 pairs, each shares its residues with at most (d/p)^3, so at N = 4000 two values are confused with probability below
2^-39 (`SHORT_TOWER`, `LONG_TOWER`, p > 2^30) or 2^-16 (`LOG_TOWER`, p > 2^23); the join of all pairs with all sums and products
has N times as many. A confusion costs an alternative that the verifier refuses, or one that is not found.

The counting rounds alone catch what confuses a size with a constant. Where fields know too little (roots up to a sign, logarithms
of negative numbers) exact roots or float64 decide; see `problem`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Axis, Graph, misfit
from .convert import copies
from .fields import LOG_TOWER, LONG_TOWER, SHORT_TOWER
from .meaning import Known, evaluate
from .pieces import Pieces, pieces
from .reals import Reals, close
from .values import Bools, Space, Value

SAMPLES = 3
MOST_DRAWS = 4096
REAL_SAMPLES = 16
ROOT_SAMPLES = 12
MOST_EXACT = 512
ROOTS = ("sqrt", "rsqrt", "pow")
NOT_FINITE = "every draw is not finite"


@dataclass(frozen=True, slots=True)
class Round:
    """One kind of draw: points an axis, chunks where an axis is split, whether sums count; most draws for exact roots."""

    points: int
    chunks: int
    counting: bool
    draws: int = 0


ROUNDS = (Round(1, 1, False), Round(2, 2, False), Round(3, 3, False), Round(3, 3, True), Round(2, 2, True))
REAL_ROUNDS = ((Round(2, 2, False), 1.0), (Round(3, 3, False), 1e-3), (Round(3, 2, False), 1.0))
ROOT_ROUNDS = (Round(1, 1, False, 1 << 15), Round(2, 2, False, 1 << 9))


def nesting(graph: Graph) -> int:
    """The most exps on one path."""
    depth: list[int] = []
    for op in graph.ops:
        depth.append(max((depth[arg] for arg in op.args), default=0) + int(op.kind == "exp"))
    return max(depth, default=0)


def tower_for(graph: Graph) -> tuple[int, ...]:
    """The primes for a program: more where exps nest deeper than two, small ones where discrete logarithms are taken."""
    if nesting(graph) > 2:
        return LONG_TOWER
    return LOG_TOWER if any(op.kind == "log" for op in graph.ops) else SHORT_TOWER


def points_of(axes: Sequence[Axis], round_: Round, shared: Mapping[str, str], runs: Pieces) -> dict[str, int]:
    """
    How many points every axis has; renamed copies (`shared`, as from `convert.copies`) have equally many.

    An axis in pieces has those of its pieces (`runs`, as from `pieces.pieces`).
    A split axis has one more than others, so that the last chunk is short; its inner axis has enough for it.
    """
    wholes = {axis.chunk_of[0] for axis in axes if axis.chunk_of is not None}
    outers = {axis.chunk_of[1] for axis in axes if axis.chunk_of is not None}
    points: dict[str, int] = {}
    for axis in axes:
        more = axis.name in wholes and round_.points > 1
        own = round_.chunks if axis.name in outers else round_.points + more
        first = shared.get(axis.name, axis.name)
        points[first] = max(points.get(first, 1), own)
    points = {axis.name: points[shared.get(axis.name, axis.name)] for axis in axes}
    for axis in axes:
        if axis.chunk_of is not None:
            whole, outer = axis.chunk_of
            points[axis.name] = -(-points[whole] // points[outer])
    for name, parts in runs.items():
        points[name] = sum(1 if piece.single else round_.points for piece in parts)
    return points


def unspoiled(graph: Graph, space: Space, known: Known | None = None) -> list[Value] | None:
    """
    The values of a graph in a space cut down to samples without a division by zero; None if none are found.

    More samples are drawn until there are enough, as a masked row may well be masked at all its points.
    """
    wanted, draws = space.samples, max(space.samples, 4)
    while draws <= MOST_DRAWS:
        space.draw_samples(draws)
        evaluate(graph, space)
        good = [i for i in range(draws) if not space.spoiled[i]]
        if len(good) >= wanted:
            space.keep(good[:wanted])
            return evaluate(graph, space, known)
        draws *= 4
    return None


class Verifier:
    """Compares programs with one given program; its own values are computed once for every set of axes."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph = graph
        self.seed = seed
        self._known: dict[tuple[int, tuple[Axis, ...]], _Draw] = {}

    def problem(self, other: Graph) -> str | None:
        """
        None if the two agree, else what was found. The other program may declare more axes (those of splits).

        A round in which every draw divides by zero decides nothing; at least one must decide. Where it finds a difference and
        there are roots, whose squares fields know only up to a sign, draws are sought whose roots are exact. Where it finds none
        and there are logarithms, which fields take of negative numbers too, float64 must agree.
        """
        extra = misfit(self.graph, other)
        if extra:
            return extra
        found = self._problem_in_fields(other)
        if found is None and any(op.kind == "log" for op in other.ops):
            doubt = self._problem_in_reals(other)
            return None if doubt == NOT_FINITE else doubt
        if found is not None and any(op.kind in ROOTS for graph in (self.graph, other) for op in graph.ops):
            return self._problem_with_roots(other)
        return found

    def _problem_with_roots(self, other: Graph) -> str | None:
        """
        Comparison at draws in which all arguments of roots are squares: a half of them for every root and point.

        One point an axis tells constants and comparisons apart exactly; with two there may be too many roots for a draw to
        be found, and float64 alone decides. It is asked first, and at more points: at two, what is centred has one direction only.
        """
        doubt = self._problem_in_reals(other)
        if doubt is not None and doubt != NOT_FINITE:
            return doubt
        for number, round_ in enumerate(ROOT_ROUNDS):
            shared = copies(other, self.graph)
            runs = pieces((other, self.graph), shared)
            points = points_of(other.axes, round_, shared, runs)
            space = Space(other.axes, points, SAMPLES, self.seed * 64 + 32 + number, tower_for(self.graph), shared, pieces=runs)
            space.exact_roots = True
            drawn = self._drawn_with_roots(space, other, round_.draws)
            if drawn is None:
                return doubt
            values, others, good, spoiled = drawn
            if bool(spoiled[good].any()):
                return "it divides by zero where the original does not, at exact roots"
            for at, (a, b) in enumerate(zip(self.graph.outputs, other.outputs, strict=True)):
                if not same(values[a.value], others[b.value], good):
                    return f"output {at} differs where roots are exact, with {round_.points} points an axis"
        return None

    def _drawn_with_roots(self, space: Space, other: Graph, most: int) -> tuple[list[Value], list[Value], list[int], Bools] | None:
        """Values of both programs, the samples in which all roots are exact, and those in which the other divides by zero."""
        draws = 64
        while draws <= most:
            space.draw_samples(draws)
            evaluate(self.graph, space)
            usable = ~space.spoiled
            if draws > 64 and not usable.any():
                # What is centred is 0 at one point: more draws divide by it too.
                return None
            exact = [i for i in range(draws) if usable[i] and not space.inexact[i]][:MOST_EXACT]
            if len(exact) >= ROOT_SAMPLES:
                space.keep(exact)
                known = Known()
                values = evaluate(self.graph, space, known)
                others = evaluate(other, space, known)
                good = [i for i in range(len(exact)) if not space.inexact[i]]
                if len(good) >= ROOT_SAMPLES:
                    return values, others, good, space.spoiled
            draws *= 8
        return None

    def _problem_in_fields(self, other: Graph) -> str | None:
        decided = 0
        for number, round_ in enumerate(ROUNDS):
            draw = self._draw(number, round_, other)
            space, values = draw.space, draw.values
            if values is None:
                continue
            others = evaluate(other, space, draw.known)
            spoiled = bool(space.spoiled.any())
            space.spoiled[:] = False
            if spoiled:
                return f"it divides by zero where the original does not (round {number})"
            for at, (a, b) in enumerate(zip(self.graph.outputs, other.outputs, strict=True)):
                if not same(values[a.value], others[b.value]):
                    return f"output {at} differs in round {number}"
            decided += 1
        return None if decided else "every draw divides by zero"

    def _problem_in_reals(self, other: Graph) -> str | None:
        """The same in float64, with tensors of both signs, or positive ones where those leave nothing to compare."""
        for positive in (False, True):
            decided = 0
            for number, (round_, scale) in enumerate(REAL_ROUNDS):
                shared = copies(other, self.graph)
                runs = pieces((other, self.graph), shared)
                points = points_of(other.axes, round_, shared, runs)
                symbols = {symbol.name: 3 + 2 * i for i, symbol in enumerate(other.symbols)}
                seed = self.seed * 64 + 48 + number
                space = Reals(other.axes, points, REAL_SAMPLES, seed, shared, symbols, positive, scale, runs)
                known = Known()
                values = evaluate(self.graph, space, known)
                known.values.clear()
                good = ~space.spoiled & ~space.overflowed
                others = evaluate(other, space, known)
                good &= ~space.overflowed
                if bool((space.spoiled & good).any()):
                    return f"it is not finite where the original is (float64, round {number})"
                decided += int(good.any())
                for at, (a, b) in enumerate(zip(self.graph.outputs, other.outputs, strict=True)):
                    if not close(values[a.value], others[b.value], good):
                        return f"output {at} differs in float64, round {number}"
            if decided:
                return None
        return NOT_FINITE

    def _draw(self, number: int, round_: Round, other: Graph) -> _Draw:
        key = (number, other.axes)
        if key not in self._known:
            shared = copies(other, self.graph)
            runs = pieces((other, self.graph), shared)
            points = points_of(other.axes, round_, shared, runs)
            symbols = small_symbols(other, points) if round_.counting else None
            seed = self.seed * 64 + number + 1
            space = Space(other.axes, points, SAMPLES, seed, tower_for(self.graph), shared, symbols, round_.counting, runs)
            known = Known()
            self._known[key] = _Draw(space, unspoiled(self.graph, space, known), known)
        return self._known[key]


@dataclass(frozen=True, slots=True)
class _Draw:
    """A space, the values of the given program in it (None if all are spoiled), and all that was evaluated there."""

    space: Space
    values: list[Value] | None
    known: Known


def small_symbols(graph: Graph, points: Mapping[str, int]) -> dict[str, int]:
    """Small integers for the symbols: the number of points of an axis that is the symbol, else distinct small numbers."""
    values = {symbol.name: 2 + i for i, symbol in enumerate(graph.symbols)}
    for axis in graph.axes:
        if axis.extent.text in values:
            values[axis.extent.text] = points[axis.name]
    return values


def same(a: Value, b: Value, samples: Sequence[int] | None = None) -> bool:
    """Whether two values agree on every level that both have, and in what is -inf; or on the highest in some samples."""
    low, high = max(a.lowest, b.lowest), min(a.highest, b.highest)
    if low > high:
        return False
    chosen = slice(None) if samples is None else list(samples)
    low = low if samples is None else high
    left, right = np.broadcast_arrays(a.residues, b.residues)
    if not bool((left[low : high + 1, chosen] == right[low : high + 1, chosen]).all()):
        return False
    none = np.zeros((1,) * (a.residues.ndim - 1), bool)
    below, above = (
        [np.broadcast_to(none if flags is None else flags, left.shape[1:])[chosen] for flags in pair]
        for pair in ((a.infinite, b.infinite), (a.above, b.above))
    )
    return bool((below[0] == below[1]).all() and (above[0] == above[1]).all())
