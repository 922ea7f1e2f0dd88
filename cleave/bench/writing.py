"""A builder with short names, to write programs of the algebra in Python as a person would in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..extents import extent
from ..graph import Attr, Axis, Builder, Graph, Input, Output, Symbol


class Write:
    """
    Operands are positions of operations; numbers become constants; results are f32 unless said.

    `axes` gives every axis its extent, a number or an expression of symbols; `inputs` every argument its axes in memory order.
    `args` are the arguments' positions. Symbols that are not given have the hint 512.
    """

    def __init__(
        self, axes: Mapping[str, int | str], inputs: Mapping[str, str], symbols: Sequence[Symbol] = (), dtype: str = "f16"
    ) -> None:
        declared = [Axis(name, extent(size)) for name, size in axes.items()]
        leaves = [Input(name, tuple(text.split()), dtype, text) for name, text in inputs.items()]
        used = sorted({symbol for axis in declared for symbol in axis.extent.symbols})
        known = {symbol.name: symbol for symbol in symbols}
        self.builder = Builder("f", [known.get(name, Symbol(name, (512,), positive=True)) for name in used], declared, leaves)
        self.args = tuple(range(len(leaves)))

    def __call__(self, kind: str, *args: int | float, attr: tuple[Attr, ...] = (), dtype: str | None = "f32") -> int:
        """One operation. An operand that is a float is a constant."""
        positions = [self.number(arg) if isinstance(arg, float) else arg for arg in args]
        return self.builder.add(kind, *positions, attr=attr, dtype=dtype)

    def number(self, value: float) -> int:
        """A constant."""
        return self.builder.add("constant", attr=(value,), dtype="f32")

    def half(self, arg: int) -> int:
        """A value in the type of the arguments."""
        return self("cast", arg, dtype=self.builder.inputs[0].dtype)

    def dot(self, axes: str, *args: int) -> int:
        """A contraction."""
        return self("contract", *args, attr=(tuple(axes.split()),))

    def sum(self, axes: str, arg: int) -> int:
        """A sum over axes."""
        return self("reduce", arg, attr=("sum", tuple(axes.split())))

    def max(self, axes: str, arg: int) -> int:
        """A maximum over axes."""
        return self("reduce", arg, attr=("max", tuple(axes.split())))

    def mean(self, axis: str, arg: int) -> int:
        """A mean over an axis."""
        return self("div", self.sum(axis, arg), self("size", attr=(axis,), dtype="index"))

    def rename(self, arg: int, **pairs: str) -> int:
        """A value with axes renamed."""
        return self("rename", arg, attr=(tuple(pairs.items()),), dtype=self.builder.ops[arg].dtype)

    def causal(self, rows: str, columns: str, arg: int) -> int:
        """-inf where the column is beyond the row."""
        i, j = (self("iota", attr=(axis,), dtype="index") for axis in (rows, columns))
        return self("select", self("compare", j, i, attr=("le",), dtype="i1"), arg, float("-inf"))

    def probabilities(self, axis: str, x: int, safe: bool = False) -> int:
        """Exponentials over their sum, with the maximum subtracted first if `safe`."""
        if safe:
            x = self("sub", x, self.max(axis, x))
        p = self("exp", x)
        return self("div", p, self.sum(axis, p))

    def root_mean_square(self, axis: str, x: int) -> int:
        """1 over the root of the mean of squares."""
        return self("rsqrt", self("add", self.mean(axis, self("mul", x, x)), 1e-6))

    def normed(self, axis: str, x: int, gain: int | None = None) -> int:
        """A value over the root of its mean square, times a gain, in the type of the arguments."""
        y = self("mul", x, self.root_mean_square(axis, x))
        return self.half(y if gain is None else self("mul", y, gain))

    def done(self, *values: int, dtype: str = "f16") -> Graph:
        """The program with those results."""
        outputs = [Output(value, " ".join(self.builder.ops[value].axes), dtype) for value in values]
        return self.builder.finish(outputs)
