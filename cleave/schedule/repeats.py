"""
Results that are repeated along an axis which they were reduced over.

One kernel cannot do both where the axis is of unknown length: it reduces over it in a loop of every program, and has programs along it. So
the value is stored by itself, and read by the kernel that repeats it:

    y[m] = sum x over [m, k]    ->    s = sum x over [m, k], stored    y[m] = s
"""

from __future__ import annotations

from dataclasses import replace

from ..graph import Graph, Op
from ..layouts import layout_axes
from .chunks import Aligned
from .nodes import removed_axes
from .sizes import Sizes


def with_repeats(made: Aligned, sizes: Sizes) -> Aligned:
    """The graph with such values stored; unchanged where there are none."""
    graph = made.graph
    ops, places, degrees, cuts = list(graph.ops), list(graph.places), list(made.degrees), set(made.cuts)
    outputs = list(graph.outputs)
    for at, output in enumerate(outputs):
        own = graph.ops[output.value]
        repeated = set(layout_axes(output.layout)) - set(own.axes)
        if not any(sizes.fixed(axis) is None for axis in repeated & _reduced(graph, output.value)):
            continue
        outputs[at] = replace(output, value=len(ops))
        ops.append(Op("cast", (output.value,), own.axes, own.dtype, ("stored",)))
        places += [graph.places[output.value]] if graph.places else []
        degrees.append(made.degrees[output.value])
        cuts.add(output.value)
    if len(ops) == len(graph.ops):
        return made
    changed = replace(graph, ops=tuple(ops), places=tuple(places), outputs=tuple(outputs))
    return replace(made, graph=changed, degrees=tuple(degrees), cuts=tuple(sorted(cuts)))


def _reduced(graph: Graph, root: int) -> set[str]:
    """The axes that a value was reduced over."""
    pending, seen, out = [root], set[int](), set[str]()
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            out.update(removed_axes(graph.ops[at]))
            pending += graph.ops[at].args
    return out
