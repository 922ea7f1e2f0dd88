"""
Random well-formed programs of the algebra as text, with sizes and inputs to run them on.

Values stay tame by construction: the writer knows bounds of everything it writes, from inputs in [-1, 1], or in [0.5, 1.5]
where the name of the input starts with `positive`. It takes logarithms, roots and quotients of what is away from 0 only, and
nothing grows beyond 1000. A program that fails can be pasted into a file as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from cleave.graph import Graph
from cleave.reference.dtypes import Array

AXES = {
    "m": "?(hint 4)", "n": "?(hint 8)", "s": "?(hint 2, positive)", "d": "4", "e": "3", "h": "2", "k": "n",
    "ni": "ceildiv(n, s) chunk of n by s", "t": "7",
}  # fmt: skip
"""The axes of every program, in order: k is a copy of n, h half of d, t is d and e joined, s and ni are chunks of n."""

LARGEST = {"m": 5, "n": 7, "s": 4}
"""The largest size that `symbol_sizes` draws for each symbol."""

_EXTENT = {"m": 5, "n": 7, "k": 7, "d": 4, "e": 3, "h": 2, "t": 7}
_BOUND = 1000.0


@dataclass(frozen=True)
class Known:
    """A value written so far: name, axes in declared order, element type, least and largest element."""

    name: str
    axes: tuple[str, ...]
    dtype: str
    low: float
    high: float

    @property
    def positive(self) -> bool:
        """Safely away from 0."""
        return self.low >= 0.05


def ordered(axes: Iterable[str]) -> tuple[str, ...]:
    """Axes in declared order, without repeats."""
    wanted = set(axes)
    return tuple(axis for axis in AXES if axis in wanted)


def type_text(axes: Sequence[str], dtype: str) -> str:
    """The type of a result as operations write it."""
    return f"!alg.tensor<[{', '.join(axes)}], {dtype}>" if axes else dtype


_UNARY: dict[str, Callable[[float, float], tuple[float, float] | None]] = {
    "neg": lambda low, high: (-high, -low),
    "abs": lambda low, high: (max(low, -high, 0.0), max(-low, high)),
    "relu": lambda low, high: (max(low, 0.0), max(high, 0.0)),
    "exp": lambda low, high: (math.exp(low), math.exp(high)) if high < 6 and low > -6 else None,
    "log": lambda low, high: (math.log(low), math.log(high)) if low >= 0.05 else None,
    "sqrt": lambda low, high: (math.sqrt(low), math.sqrt(high)) if low >= 0.05 else None,
    "rsqrt": lambda low, high: (high**-0.5, low**-0.5) if low >= 0.05 else None,
    "tanh": lambda low, high: (math.tanh(low), math.tanh(high)),
    "sigmoid": lambda low, high: (1 / (1 + math.exp(-low)), 1 / (1 + math.exp(-high))) if low > -6 else None,
    "silu": lambda low, high: (-0.3, max(high, 0.0)),
    "gelu": lambda low, high: (-0.2, max(high, 0.0)),
    "gelu_tanh": lambda low, high: (-0.2, max(high, 0.0)),
    "sin": lambda low, high: (-1.0, 1.0),
    "cos": lambda low, high: (-1.0, 1.0),
    "erf": lambda low, high: (math.erf(low), math.erf(high)),
}


def _products(a: Known, b: Known) -> tuple[float, float]:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def _binary(kind: str, a: Known, b: Known) -> tuple[float, float] | None:
    match kind:
        case "add":
            return a.low + b.low, a.high + b.high
        case "sub":
            return a.low - b.high, a.high - b.low
        case "mul":
            return _products(a, b)
        case "div":
            return _products(a, Known("", (), "f32", 1 / b.high, 1 / b.low)) if b.positive else None
        case "max":
            return max(a.low, b.low), max(a.high, b.high)
        case _:
            return min(a.low, b.low), min(a.high, b.high)


class Writer:
    """Writes one program, a piece at a time; every piece adds a value that later ones may use."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.arguments: list[str] = []
        self.values: list[Known] = []
        self.count = 0

    def one_of(self, choices: Sequence[str]) -> str:
        """One of several texts."""
        return self.draw(st.sampled_from(choices))

    def value(self, has: Sequence[str] = (), lacks: Sequence[str] = ()) -> Known | None:
        """One of the late values that have, and lack, those axes; None if there is none."""
        fitting = [value for value in self.values if set(has) <= set(value.axes) and not set(lacks) & set(value.axes)]
        return fitting[-1 - self.draw(st.integers(0, min(len(fitting), 6) - 1))] if fitting else None

    def axes_of(self, value: Known, among: Sequence[str] = ("m", "n", "k", "d", "e", "h", "t")) -> tuple[str, ...]:
        """Some of the axes of a value, in a random order; () if it has none of them."""
        present = [axis for axis in value.axes if axis in among]
        return tuple(self.draw(st.lists(st.sampled_from(present), min_size=1, max_size=2, unique=True))) if present else ()

    def write(self, text: str, axes: Iterable[str], dtype: str = "f32", low: float = 0.0, high: float = 0.0) -> Known:
        """One operation; its value is not offered to others yet."""
        self.count += 1
        known = Known(f"%v{self.count}", ordered(axes), dtype, low, high)
        self.lines.append(f"  {known.name} = {text} : {type_text(known.axes, dtype)}")
        return known

    def keep(self, known: Known) -> None:
        """Offers a value to later pieces, if it is bounded as all must be."""
        if known.low >= -_BOUND and known.high <= _BOUND:
            self.values.append(known)

    def argument(self) -> None:
        """Another argument."""
        axes = ordered(self.draw(st.lists(st.sampled_from(["m", "n", "d", "e"]), min_size=1, max_size=3, unique=True)))
        positive = self.draw(st.booleans())
        dtype = self.one_of(["f32", "f32", "f16", "bf16"])
        name = f"%{'positive' if positive else 'x'}{'abcdef'[len(self.arguments)]}"
        self.arguments.append(f"{name}: {type_text(axes, dtype)}")
        self.values.append(Known(name, axes, dtype, 0.5 if positive else -1.0, 1.5 if positive else 1.0))

    def constant(self) -> Known:
        """A small dyadic number."""
        number = self.draw(st.integers(-16, 16)) / 8
        return self.write(f"alg.constant {number}", (), "f32", number, number)

    def unary(self) -> None:
        """An elementwise function that is defined on all of its argument."""
        x = self.value()
        assert x is not None
        fitting = [(kind, bounds(x.low, x.high)) for kind, bounds in _UNARY.items()]
        kind, found = self.draw(st.sampled_from([(kind, bounds) for kind, bounds in fitting if bounds is not None]))
        self.keep(self.write(f"alg.{kind} {x.name}", x.axes, "f32", *found))

    def binary(self) -> None:
        """An elementwise function of two values, or of a value and a constant."""
        a, b = self.value(), self.value()
        assert a is not None and b is not None
        if self.draw(st.integers(0, 3)) == 0:
            b = self.constant()
        kind = self.one_of(["add", "sub", "mul", "mul", "div", "max", "min"])
        found = _binary(kind, a, b)
        if found is not None and len(ordered((*a.axes, *b.axes))) <= 4:
            self.keep(self.write(f"alg.{kind} {a.name}, {b.name}", (*a.axes, *b.axes), "f32", *found))

    def cast(self) -> None:
        """Another float type."""
        x = self.value()
        assert x is not None
        dtype = self.one_of(["f16", "bf16", "f32"])
        self.keep(self.write(f"alg.cast {x.name}", x.axes, dtype, x.low, x.high))

    def reduce(self) -> None:
        """A sum, maximum or minimum."""
        x = self.value()
        assert x is not None
        if axes := self.axes_of(x):
            kind = self.one_of(["sum", "sum", "max", "min"])
            size = math.prod(_EXTENT[axis] for axis in axes) if kind == "sum" else 1
            rest = [axis for axis in x.axes if axis not in axes]
            self.keep(self.write(f"alg.reduce {kind} {x.name} over [{', '.join(axes)}]", rest, "f32", *_summed(x.low, x.high, size)))

    def contract(self) -> None:
        """A sum of a product of two or three values."""
        values = [value for value in (self.value() for _ in range(self.draw(st.integers(2, 3)))) if value is not None]
        union = ordered(axis for value in values for axis in value.axes)
        shared = [axis for axis in union if sum(axis in value.axes for value in values) > 1]
        if shared and len(union) <= 5:
            axes = self.draw(st.lists(st.sampled_from(shared), min_size=1, max_size=2, unique=True))
            low, high = values[0].low, values[0].high
            for value in values[1:]:
                low, high = _products(Known("", (), "", low, high), value)
            bounds = _summed(low, high, math.prod(_EXTENT[axis] for axis in axes))
            operands = ", ".join(value.name for value in values)
            rest = [axis for axis in union if axis not in axes]
            self.keep(self.write(f"alg.contract {operands} over [{', '.join(axes)}]", rest, "f32", *bounds))

    def mask(self, x: Known) -> tuple[str, tuple[str, ...]] | None:
        """A condition over two axes of a value in which index 0 of the second is always true, and its axes."""
        pairs = [(i, j) for i in x.axes for j in ("n", "k") if j in x.axes and i != j and i in ("m", "n", "k")]
        if not pairs:
            return None
        i, j = self.draw(st.sampled_from(pairs))
        row = self.write(f"alg.iota {i}", (i,), "index")
        column = self.write(f"alg.iota {j}", (j,), "index")
        causal = self.write(f"alg.compare le {column.name}, {row.name}", (i, j), "i1")
        if self.draw(st.booleans()):
            zero = self.write("alg.constant 0", (), "index")
            first = self.write(f"alg.compare eq {column.name}, {zero.name}", (j,), "i1")
            causal = self.write(f"alg.or {causal.name}, {first.name}", (i, j), "i1")
        return causal.name, (i, j)

    def select(self) -> None:
        """A choice between two values by a comparison, of indices or of values."""
        a, b = self.value(), self.value()
        assert a is not None and b is not None
        found = self.mask(a)
        if found is None:
            predicate = self.one_of(["lt", "le", "gt", "ge"])
            condition = self.write(f"alg.compare {predicate} {a.name}, {b.name}", (*a.axes, *b.axes), "i1")
            found = condition.name, condition.axes
        name, axes = found
        if len(ordered((*axes, *a.axes, *b.axes))) <= 4:
            bounds = min(a.low, b.low), max(a.high, b.high)
            self.keep(self.write(f"alg.select {name}, {a.name}, {b.name}", (*axes, *a.axes, *b.axes), "f32", *bounds))

    def weights(self) -> None:
        """Exponentials over their sum, perhaps masked, perhaps with the maximum subtracted; perhaps an average by them."""
        x = self.value(has=("n",)) or self.value(has=("k",))
        if x is None or x.high > 6 or x.low < -6:
            return
        axis = "n" if "n" in x.axes else "k"
        argument = x
        if self.draw(st.booleans()) and (mask := self.mask(x)) is not None and mask[1][1] == axis:
            nothing = self.write("alg.constant -inf", ())
            argument = self.write(f"alg.select {mask[0]}, {x.name}, {nothing.name}", x.axes)
        if self.draw(st.booleans()):
            rest = [name for name in x.axes if name != axis]
            top = self.write(f"alg.reduce max {argument.name} over [{axis}]", rest)
            argument = self.write(f"alg.sub {argument.name}, {top.name}", x.axes)
        p = self.write(f"alg.exp {argument.name}", x.axes)
        rest = [name for name in x.axes if name != axis]
        z = self.write(f"alg.reduce sum {p.name} over [{axis}]", rest)
        other = self.value(has=(axis,))
        if other is None or self.draw(st.booleans()) or len(ordered((*x.axes, *other.axes))) > 5:
            self.keep(self.write(f"alg.div {p.name}, {z.name}", x.axes, "f32", 0.0, 1.0))
            return
        late = self.draw(st.booleans())
        weights = p if late else self.write(f"alg.div {p.name}, {z.name}", x.axes)
        axes = [name for name in ordered((*x.axes, *other.axes)) if name != axis]
        mean = self.write(f"alg.contract {weights.name}, {other.name} over [{axis}]", axes, "f32", other.low, other.high)
        if late:
            mean = self.write(f"alg.div {mean.name}, {z.name}", axes, "f32", other.low, other.high)
        self.keep(mean)

    def root_mean_square(self) -> None:
        """A value over the root of the mean of its squares."""
        x = self.value()
        assert x is not None
        axes = self.axes_of(x, ("n", "d", "e"))[:1]
        if not axes or max(-x.low, x.high) > 30:
            return
        rest = [name for name in x.axes if name not in axes]
        square = self.write(f"alg.mul {x.name}, {x.name}", x.axes)
        total = self.write(f"alg.reduce sum {square.name} over [{axes[0]}]", rest)
        count = self.write(f"alg.size {axes[0]}", (), "index")
        mean = self.write(f"alg.div {total.name}, {count.name}", rest)
        small = self.write("alg.constant 0.125", ())
        held = self.write(f"alg.add {mean.name}, {small.name}", rest)
        root = self.write(f"alg.rsqrt {held.name}", rest)
        self.keep(self.write(f"alg.mul {x.name}, {root.name}", x.axes, "f32", -3.0, 3.0))

    def rename(self) -> None:
        """n under the name k, or back."""
        x = self.value()
        assert x is not None
        for old, new in (("n", "k"), ("k", "n")):
            if old in x.axes and new not in x.axes:
                axes = [new if axis == old else axis for axis in x.axes]
                self.keep(self.write(f"alg.rename {x.name} [{old} -> {new}]", axes, x.dtype, x.low, x.high))
                return

    def chunks(self) -> None:
        """A reduction over n by chunks, or chunks put together again."""
        x = self.value(has=("n",))
        if x is None:
            return
        rest = [axis for axis in x.axes if axis != "n"]
        parts = self.write(f"alg.split {x.name} n into [s, ni]", (*rest, "s", "ni"), x.dtype, x.low, x.high)
        kind = self.one_of(["sum", "max", "min", "merge"])
        if kind == "merge":
            turned = self.write(f"alg.neg {parts.name}", parts.axes, x.dtype)
            self.keep(self.write(f"alg.merge {turned.name} [s, ni] into n", x.axes, x.dtype, -x.high, -x.low))
            return
        first, second = self.draw(st.permutations(["s", "ni"]))
        inner = self.write(f"alg.reduce {kind} {parts.name} over [{first}]", (*rest, second))
        bounds = _summed(x.low, x.high, _EXTENT["n"] if kind == "sum" else 1)
        self.keep(self.write(f"alg.reduce {kind} {inner.name} over [{second}]", rest, "f32", *bounds))

    def rearrange(self) -> None:
        """A slice, an element, a padded or a joined axis."""
        kind = self.one_of(["slice", "index", "pad", "concat"])
        x = self.value(has=("d",), lacks={"slice": ("h",), "index": (), "pad": ("t",), "concat": ("e", "t")}[kind])
        if x is None:
            return
        rest = [axis for axis in x.axes if axis != "d"]
        bounds = x.low, x.high
        match kind:
            case "slice":
                start, step = self.draw(st.sampled_from([(0, 1), (0, 2), (1, 2), (2, 1), (3, -2)]))
                self.keep(self.write(f"alg.slice {x.name} d into h from {start} step {step}", (*rest, "h"), x.dtype, *bounds))
            case "index":
                self.keep(self.write(f"alg.index {x.name} d at {self.draw(st.integers(0, 3))}", rest, x.dtype, *bounds))
            case "pad":
                text = f"alg.pad {x.name} d into t low {self.draw(st.integers(0, 3))} value 1.0"
                self.keep(self.write(text, (*rest, "t"), x.dtype, min(x.low, 1.0), max(x.high, 1.0)))
            case _:
                y = self.value(has=("e",), lacks=("d", "t"))
                if y is not None:
                    y = self.write(f"alg.cast {y.name}", y.axes, x.dtype, y.low, y.high)
                    axes = [axis for axis in (*rest, *y.axes) if axis != "e"]
                    bounds = min(x.low, y.low), max(x.high, y.high)
                    self.keep(self.write(f"alg.concat {x.name}, {y.name} along [d, e] into t", (*axes, "t"), x.dtype, *bounds))

    def program(self, pieces: Sequence[str], least: int, most: int) -> str:
        """The text of a program of so many pieces."""
        for _ in range(self.draw(st.integers(1, 3))):
            self.argument()
        for piece in self.draw(st.lists(st.sampled_from(pieces), min_size=least, max_size=most)):
            getattr(self, piece)()
        results = [self.values[-1], *self.draw(st.lists(st.sampled_from(self.values), max_size=1))]
        types = ", ".join(f"!alg.tensor<[{', '.join(result.axes)}], {result.dtype}>" for result in results)
        declared = ", ".join(f"{axis} = {extent}" for axis, extent in AXES.items())
        body = "\n".join(self.lines)
        given = ", ".join(result.name for result in results)
        head = f"alg.graph @program axes [{declared}]\n    ({', '.join(self.arguments)})\n    -> ({types}) {{"
        return f"{head}\n{body}\n  alg.yield {given}\n}}\n"


def _summed(low: float, high: float, size: int) -> tuple[float, float]:
    """Bounds of a sum of 1 to `size` numbers."""
    return min(low, low * size), max(high, high * size)


PIECES = ("unary", "binary", "cast", "reduce", "contract", "select", "weights", "root_mean_square", "rename", "chunks", "rearrange")
"""What programs are made of; the names of the methods of `Writer`."""


@st.composite
def alg_programs(draw: st.DrawFn, pieces: Sequence[str] = PIECES, least: int = 1, most: int = 8) -> str:
    """The text of a module with one well-formed graph, `@program`, of `least` to `most` of the given pieces."""
    return Writer(draw).program(pieces, least, most)


def symbol_sizes(least: int = 1) -> st.SearchStrategy[dict[str, int]]:
    """Sizes for the symbols of `alg_programs`; chunks are often short, and some have nothing in them."""
    return st.fixed_dictionaries({name: st.integers(max(least, 1) if name == "s" else least, most) for name, most in LARGEST.items()})


def random_inputs(graph: Graph, symbols: Mapping[str, int], seed: int) -> list[Array]:
    """Inputs within the bounds that `alg_programs` reckons with, exact in every float type."""
    rng = np.random.default_rng(seed)
    sizes = graph.sizes(symbols)
    out: list[Array] = []
    for entry in graph.inputs:
        low, high = (4, 12) if entry.name.startswith("positive") else (-8, 8)
        out.append(rng.integers(low, high, [sizes[axis] for axis in entry.axes], endpoint=True) / 8.0)
    return out
