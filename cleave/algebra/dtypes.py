"""
Which dtypes an algebraic program computes in.

The algebra ignores casts, so a program that leaves it gets them back here, from one policy: elementwise work and reductions in
f32 (f64 where an input is f64); the operands of a contraction in the type asked for it, the result in f32; data movement
keeps the type; results as declared. Existing casts between floating types are dropped first.

Numbers and truth values can be equal in the algebra (0 is false), so an operand may come in another kind of type than its place
asks for: conditions are made i1, operands of integer operations integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ..graph import FLOATS, Graph, Op, without_dead_code

INTEGERS = frozenset(("i32", "i64", "index"))
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

    Ops on integers and truth values keep their types, and their operands get the types that they take.
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
        value = _literal(source)
        if value is not None and math.isfinite(value) and dtype not in FLOATS:
            return self.put(Op("constant", (), (), dtype, (bool(value) if dtype == "i1" else int(value),)))
        return self.put(Op("cast", (position,), source.axes, dtype))

    def retyped(self, position: int, op: Op) -> int:
        args = tuple(self.place[arg] for arg in op.args)
        types = [self.ops[arg].dtype for arg in args]
        match op.kind:
            case "input":
                return self.put(op)
            case "constant" | "size" | "iota":
                return self.put(replace(op, dtype=self.real) if op.dtype in FLOATS else op)
            case "cast" if op.dtype == types[0] or (op.dtype in FLOATS and types[0] in FLOATS):
                return args[0]
            case "cast":
                return self.put(replace(op, args=args))
            case "contract":
                wanted = self.operand_type(position)
                return self.put(replace(op, args=tuple(self.cast(arg, wanted) for arg in args), dtype=self.real))
            case "select":
                wanted = op.dtype if op.dtype not in FLOATS else self.real
                return self.put(replace(op, args=(self.cast(args[0], "i1"), *(self.cast(arg, wanted) for arg in args[1:])), dtype=wanted))
            case "compare":
                wanted = self.compared(args)
                return self.put(replace(op, args=tuple(self.cast(arg, wanted) for arg in args)))
            case "gather":
                index = args[1] if types[1] in INTEGERS else self.cast(args[1], "i64")
                table = args[0] if op.dtype in FLOATS else self.cast(args[0], op.dtype)
                return self.put(replace(op, args=(table, index), dtype=self.ops[table].dtype))
            case kind if kind in MOVES and op.dtype in FLOATS:
                wanted = types[0] if len(set(types)) == 1 else self.real
                return self.put(replace(op, args=tuple(self.cast(arg, wanted) for arg in args), dtype=wanted))
            case _ if op.dtype in FLOATS:
                return self.put(replace(op, args=tuple(self.cast(arg, self.real) for arg in args), dtype=self.real))
            case _:
                return self.put(replace(op, args=tuple(self.cast(arg, op.dtype) for arg in args)))

    def compared(self, args: Sequence[int]) -> str:
        """
        The type to compare operands in: the one that all have but whole constants, as not all integers are floats; i64 of several
        integer types, else that of elementwise work.
        """
        ops = [self.ops[arg] for arg in args]
        every = {op.dtype for op in ops}
        own = {op.dtype for op in ops if (value := _literal(op)) is None or not float(value).is_integer()} or every
        if own <= INTEGERS:
            return own.pop() if len(own) == 1 else "i64"
        return "i1" if every == {"i1"} else self.real


def _literal(op: Op) -> float | None:
    """The number or truth value of a constant, None for any other operation."""
    value = op.attr[0] if op.kind == "constant" else None
    return value if isinstance(value, float | int) else None
