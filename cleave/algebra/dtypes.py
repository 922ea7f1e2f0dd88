"""
Which dtypes an algebraic program computes in.

The algebra ignores casts, so a program that leaves it gets them back here, from one policy: elementwise work and reductions in
f32 (f64 where an input is f64); the operands of a contraction in the type asked for it, the result in f32; data movement
keeps the type; results as declared. Existing casts between floating types are dropped first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ..graph import Graph, Op, without_dead_code

FLOATS = ("f16", "bf16", "f32", "f64")
MOVES = ("rename", "split", "merge", "slice", "index", "pad", "concat", "gather", "shift")


def real_type(graph: Graph) -> str:
    """The type of elementwise work and reductions."""
    return "f64" if any(entry.dtype == "f64" for entry in graph.inputs) else "f32"


def widest(types: Iterable[str]) -> str:
    """The narrowest floating type that holds all of the given ones; f32 where there are none."""
    found = list(dict.fromkeys(dtype for dtype in types if dtype in FLOATS))
    return found[0] if len(found) == 1 else "f64" if "f64" in found else "f32"


def widest_input_type(graph: Graph) -> str:
    """The widest floating type among the inputs."""
    return widest(entry.dtype for entry in graph.inputs)


def assign_types(graph: Graph, operand_type: Callable[[int], str]) -> Graph:
    """
    The same program with dtypes by the policy. `operand_type` gives the type for the operands of the contraction at a position.

    Ops on integers and truth values keep their types.
    """
    return _Typing(graph, operand_type).run()


class _Typing:
    def __init__(self, graph: Graph, operand_type: Callable[[int], str]) -> None:
        self.graph = graph
        self.operand_type = operand_type
        self.real = real_type(graph)
        self.ops: list[Op] = []
        self.places: list[str] = []
        self.at = ""
        self.known: dict[Op, int] = {}
        self.place: list[int] = []

    def run(self) -> Graph:
        for position, op in enumerate(self.graph.ops):
            self.at = self.graph.places[position] if self.graph.places else ""
            self.place.append(self.retyped(position, op))
        outputs = tuple(replace(out, value=self.cast(self.place[out.value], out.dtype)) for out in self.graph.outputs)
        places = tuple(self.places) if self.graph.places else ()
        return without_dead_code(replace(self.graph, ops=tuple(self.ops), outputs=outputs, places=places))

    def put(self, op: Op) -> int:
        if op not in self.known:
            self.ops.append(op)
            self.places.append(self.at)
            self.known[op] = len(self.ops) - 1
        return self.known[op]

    def cast(self, position: int, dtype: str) -> int:
        source = self.ops[position]
        if source.dtype == dtype:
            return position
        return self.put(Op("cast", (position,), source.axes, dtype))

    def retyped(self, position: int, op: Op) -> int:
        args = tuple(self.place[arg] for arg in op.args)
        types = [self.ops[arg].dtype for arg in args]
        match op.kind:
            case "input":
                return self.put(op)
            case "constant" | "size" | "iota":
                return self.put(replace(op, dtype=self.real) if op.dtype in FLOATS else op)
            case "cast" if op.dtype in FLOATS and types[0] in FLOATS:
                return args[0]
            case "cast":
                return self.put(replace(op, args=args))
            case "contract":
                wanted = self.operand_type(position)
                return self.put(replace(op, args=tuple(self.cast(arg, wanted) for arg in args), dtype=self.real))
            case "select":
                if op.dtype not in FLOATS:
                    return self.put(replace(op, args=args))
                return self.put(replace(op, args=(args[0], *(self.cast(arg, self.real) for arg in args[1:])), dtype=self.real))
            case "compare":
                if all(dtype not in FLOATS for dtype in types):
                    return self.put(replace(op, args=args))
                return self.put(replace(op, args=tuple(self.cast(arg, self.real) for arg in args)))
            case "gather":
                return self.put(replace(op, args=args, dtype=types[0]))
            case kind if kind in MOVES:
                wanted = types[0] if len(set(types)) == 1 else self.real
                return self.put(replace(op, args=tuple(self.cast(arg, wanted) for arg in args), dtype=wanted))
            case _ if op.dtype in FLOATS:
                return self.put(replace(op, args=tuple(self.cast(arg, self.real) for arg in args), dtype=self.real))
            case _:
                return self.put(replace(op, args=args))
