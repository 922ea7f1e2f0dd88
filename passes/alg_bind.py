"""
Bind symbols of the algebra to sizes: `m = ?` becomes `m = 64`, and `?(hint 512)` another hint.

    alg.graph @f axes [m = ?, t = 2*m + 1, n = ?(hint 8)]   alg-bind{sizes="m=64" hints="n=4096,n=1"}
    alg.graph @f axes [m = 64, t = 129, n = ?(hint 4096, hint 1)]

A size makes extents static everywhere: in axes, in operations, and in the costs of alternatives. Hints replace those that the
symbol has; it stays known at run time only. Other symbols are left alone. Values are the same for inputs of those sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from cleave.dialects.alg import AlternativesOp, AxisAttr, ExtentAttr, GraphOp, SymbolAttr
from cleave.errors import CleaveError
from cleave.extents import NAME, Extent, extent
from cleave.graph import Symbol


@dataclass(frozen=True)
class AlgBindPass(ModulePass):
    """Bind symbols to static sizes, or to hints."""

    name = "alg-bind"

    sizes: str = ""
    """Static sizes, as "m=64,n=4096"."""

    hints: str = ""
    """Sizes to tune for, as "n=4096"; a symbol may be named several times."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        sizes = {name: values[-1] for name, values in parse_sizes(self.sizes).items()}
        hints = parse_sizes(self.hints)
        graphs = [graph for graph in op.walk() if isinstance(graph, GraphOp)]
        declared = {symbol.data.name for graph in graphs for symbol in graph.symbols}
        for name in (*sizes, *hints):
            if name not in declared:
                known = ", ".join(sorted(declared)) or "none"
                raise CleaveError(graphs[0] if graphs else op, f"no graph declares symbol '{name}' (there are {known})", "correct the name")
        for graph in graphs:
            bind(graph, sizes, hints)


def parse_sizes(text: str, of: str = "alg-bind") -> dict[str, tuple[int, ...]]:
    """The sizes of `"m=64,n=1,n=2"` by name. Raises: CleaveError, of the pass named, for other text."""
    out: dict[str, tuple[int, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not NAME.match(name) or not value.isdecimal():
            raise CleaveError(None, f"'{part}' is not a size", 'write name=integer, as in "m=64,n=4096"', op=of)
        out[name] = (*out.get(name, ()), int(value))
    return out


def bind(graph: GraphOp, sizes: Mapping[str, int], hints: Mapping[str, tuple[int, ...]]) -> None:
    """Binds the symbols of one graph. Raises: CleaveError for a size that contradicts what is known of the symbol."""
    kept: list[SymbolAttr] = []
    for symbol in (attr.data for attr in graph.symbols):
        for value in (*hints.get(symbol.name, ()), *((sizes[symbol.name],) if symbol.name in sizes else ())):
            _check(graph, symbol, value)
        if symbol.name not in sizes:
            kept.append(SymbolAttr(replace(symbol, hints=hints.get(symbol.name, symbol.hints))))
    graph.properties["symbols"] = ArrayAttr(kept)
    graph.properties["axes"] = ArrayAttr(
        [AxisAttr(replace(axis, extent=_bound(graph, f"axis '{axis.name}'", axis.extent, sizes))) for axis in graph.declared()]
    )
    for op in graph.body.walk():
        for name, attr in op.properties.items():
            if isinstance(attr, ExtentAttr):
                op.properties[name] = ExtentAttr(_bound(op, name, attr.data, sizes))
        if isinstance(op, AlternativesOp):
            op.properties["facts"] = ArrayAttr([_bound_facts(facts, sizes) for facts in op.facts])


def _bound(op: Operation, what: str, of: Extent, sizes: Mapping[str, int]) -> Extent:
    try:
        return of.substituted(sizes)
    except ValueError as error:
        raise CleaveError(op, f"{what} is {of.text}: {error} at these sizes", "give others") from None


def _check(graph: GraphOp, symbol: Symbol, value: int) -> None:
    if value % symbol.multiple_of:
        raise CleaveError(graph, f"size {value} of symbol '{symbol.name}' is not a multiple of {symbol.multiple_of}", "give one that is")
    if symbol.positive and value == 0:
        raise CleaveError(graph, f"size 0 of symbol '{symbol.name}', which is positive", "give a positive size")


def _bound_facts(facts: DictionaryAttr, sizes: Mapping[str, int]) -> DictionaryAttr:
    out: dict[str, Attribute] = dict(facts.data)
    for key in ("flops", "bytes"):
        if key in out:
            out[key] = StringAttr(extent(cast(StringAttr, out[key]).data).substituted(sizes).text)
    return DictionaryAttr(out)
