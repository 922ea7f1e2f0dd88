"""
Mutants: programs with one small mistake, or with two, to test what judges programs.

Mistakes are those that people and rewrites make: a factor dropped, operands swapped, a wrong axis, a mask shifted, transposed or
turned round, an epsilon dropped or moved out of its function, a constant nudged by a thousandth, a scale applied at the wrong
place or the wrong way round, a reduction dropped or of another kind, an operand of the same shape taken for another. Among them
are changes that keep the value (operands of a product swapped, a quotient as a product with an inverse, a strict comparison of
integers one further on): who judges must accept those.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..graph import FLOATS, REDUCTIONS, Attr, Builder, Graph, Op

Make: TypeAlias = Callable[[Builder, tuple[int, ...]], int]
"""Adds operations in place of one, given its operands, and returns the position of the result."""

NUDGE = 1e-3
KINDS = {
    "factor or operand dropped": r"an operand dropped|function dropped|reduction dropped|mask dropped",
    "wrong axis": r"over \w+|not over \w+|size of \w+|iota of \w+",
    "operands swapped": r"operands swapped|branches swapped",
    "mask transposed or turned": r"mask transposed|turned round|(eq|ne|ge|gt|le|lt) for (eq|ne|ge|gt|le|lt)|not of the opposite",
    "mask shifted": r"operand \d moved by|strict, ",
    "epsilon or operand moved": r"an operand moved out",
    "constant nudged": r"nudged to",
    "wrong rescale": (
        r"the result twice|a factor squared|a square below|mul for div|div for mul|mean for|1/|scaled to|half as strong"
        r"|to base 2|without the root"
    ),
    "other operand": r"%\d+ for|an operand twice",
    "other operation": r"\w+ for \w+|0 for -inf|-?\d+ for|sums before the product",
    "other form of the same value": r"",
}
"""What is wrong in a mutant, by the name of the change: the first that fits."""
ELEMENTWISE = ("exp", "log", "rsqrt", "sqrt", "silu", "sigmoid", "tanh", "neg", "sin", "cos", "gelu", "abs", "erf", "relu")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed program and what was changed where."""

    name: str
    graph: Graph


def mutants(graph: Graph, seed: int, count: int) -> Iterator[Mutant]:
    """At most `count` distinct mutants, of one change or two, in a random order that depends on the seed alone; all kinds are as likely."""
    rng = np.random.default_rng(seed)
    seen = {graph.ops}
    yielded = 0
    pool = [Mutant("", graph)]
    for _ in range(20 * count):
        if yielded == count:
            return
        base = pool[0] if rng.random() < 0.6 else pool[int(rng.integers(len(pool)))]
        options: dict[str, list[tuple[int, str, Make]]] = {}
        for at in range(len(base.graph.ops)):
            for name, make in changes(base.graph, at):
                options.setdefault(kinds(name)[0], []).append((at, name, make))
        if not options:
            return
        alike = options[sorted(options)[int(rng.integers(len(options)))]]
        at, name, make = alike[int(rng.integers(len(alike)))]
        made = changed(base.graph, at, make)
        if made is None or made.ops in seen:
            continue
        seen.add(made.ops)
        mutant = Mutant(f"{base.name}, {name} at %{at}" if base.name else f"{name} at %{at}", made)
        if not base.name and len(pool) < 64:
            pool.append(mutant)
        yielded += 1
        yield mutant


def kinds(name: str) -> tuple[str, ...]:
    """What is wrong in a mutant, by its name: a kind for every change."""
    changes = [re.sub(r"^-?[\d.e+-]+ (?=nudged|scaled)", "", change) for change in name.split(", ") if change]
    joined: list[str] = []
    for change in changes:
        if joined and not re.search(r" at %\d+$", joined[-1]):
            joined[-1] += f", {change}"
        else:
            joined.append(change)
    return tuple(next(kind for kind, pattern in KINDS.items() if re.match(pattern, change)) for change in joined)


def changed(graph: Graph, at: int, make: Make) -> Graph | None:
    """The graph with one operation made otherwise; None where the rest or the results no longer fit."""
    builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
    place: list[int] = []
    try:
        for position, op in enumerate(graph.ops):
            args = tuple(place[arg] for arg in op.args)
            if op.kind == "input":
                place.append(int(str(op.attr[0])))
            elif position == at:
                place.append(make(builder, args))
            else:
                place.append(builder.add(op.kind, *args, attr=op.attr, dtype=op.dtype))
        outputs = [replace(output, value=place[output.value]) for output in graph.outputs]
        for old, new in zip(graph.outputs, outputs, strict=True):
            if graph.ops[old.value].axes != builder.ops[new.value].axes or graph.ops[old.value].dtype != builder.ops[new.value].dtype:
                return None
    except ValueError:
        return None
    return builder.finish(outputs)


def changes(graph: Graph, at: int) -> Iterator[tuple[str, Make]]:
    """Every change of one operation."""
    op = graph.ops[at]
    if op.kind in ("input", "cast"):
        return
    yield from _of_operands(graph, at)
    match op.kind:
        case "add" | "sub" | "mul" | "div" | "max" | "min" if not op.attr:
            yield from _of_arithmetic(op)
        case "constant":
            yield from _of_constants(op)
        case "compare":
            yield from _of_comparisons(op)
        case "select":
            yield "branches swapped", lambda b, args: b.add("select", args[0], args[2], args[1], dtype=op.dtype)
            yield "mask dropped", lambda b, args: _filled(b, op, args[1])
        case "iota" | "size":
            for axis in graph.axes:
                yield f"{op.kind} of {axis.name}", lambda b, args, name=axis.name: b.add(op.kind, attr=(name,), dtype=op.dtype)
        case "reduce" | "contract":
            yield from _of_reductions(graph, op)
        case kind if kind in ELEMENTWISE:
            yield from _of_functions(graph, op)
        case _:
            pass


def _filled(b: Builder, op: Op, value: int) -> int:
    """A value over all axes of an operation."""
    missing = [axis for axis in op.axes if axis not in b.ops[value].axes]
    if missing:
        raise ValueError("axes are missing")
    return value if b.ops[value].dtype == op.dtype else b.add("cast", value, dtype=op.dtype)


def _same(op: Op, kind: str, *order: int, attr: tuple[Attr, ...] | None = None) -> Make:
    """The operation with another kind, order of operands or attribute."""
    return lambda b, args: b.add(kind, *(args[i] for i in order), attr=op.attr if attr is None else attr, dtype=op.dtype)


def _real(b: Builder, kind: str, *args: int | float) -> int:
    positions = [b.add("constant", attr=(arg,), dtype="f32") if isinstance(arg, float) else arg for arg in args]
    return b.add(kind, *positions, dtype="f32")


def _of_operands(graph: Graph, at: int) -> Iterator[tuple[str, Make]]:
    """An operand replaced by another value of the same axes and type, and an operand used twice."""
    op = graph.ops[at]
    if op.kind in ("select", "concat", "gather"):
        return
    for place, arg in enumerate(op.args):
        wanted = graph.ops[arg]
        for other in range(at):
            found = graph.ops[other]
            if other not in op.args and (found.axes, found.dtype, found.kind == "constant") == (wanted.axes, wanted.dtype, False):
                yield f"%{other} for %{arg}", lambda b, args, i=place, new=other: _with(b, graph, op, args, i, new)


def _with(b: Builder, graph: Graph, op: Op, args: tuple[int, ...], place: int, new: int) -> int:
    wanted = graph.ops[new]
    found = next(
        (i for i, known in enumerate(b.ops) if (known.kind, known.attr, known.axes) == (wanted.kind, wanted.attr, wanted.axes)), None
    )
    if found is None:
        raise ValueError("the other operand is not there")
    return b.add(op.kind, *args[:place], found, *args[place + 1 :], attr=op.attr, dtype=op.dtype)


def tuple_of(attr: Attr) -> tuple[Attr, ...]:
    """An attribute that is a tuple."""
    return attr if isinstance(attr, tuple) else ()


def _of_arithmetic(op: Op) -> Iterator[tuple[str, Make]]:
    yield "operands swapped", _same(op, op.kind, 1, 0)
    for i in (0, 1):
        yield "an operand dropped", lambda b, args, i=i: _filled(b, op, args[i])
        yield "an operand twice", _same(op, op.kind, i, i)
    others = {"add": ("sub", "mul", "max"), "sub": ("add",), "mul": ("div", "add"), "div": ("mul",), "max": ("min", "add"), "min": ("max",)}
    for other in others[op.kind]:
        yield f"{other} for {op.kind}", _same(op, other, 0, 1)
    if op.dtype not in FLOATS:
        return
    yield "the result twice", lambda b, args: _real(b, "add", b.add(op.kind, *args, dtype=op.dtype), b.add(op.kind, *args, dtype=op.dtype))
    match op.kind:
        case "div":
            yield "the inverse, then a product", lambda b, args: _real(b, "mul", args[0], _real(b, "div", 1.0, args[1]))
            yield "a square below", lambda b, args: _real(b, "div", args[0], _real(b, "mul", args[1], args[1]))
        case "sub":
            yield "a negative added", lambda b, args: _real(b, "add", args[0], _real(b, "neg", args[1]))
            yield "turned round and negated", lambda b, args: _real(b, "neg", _real(b, "sub", args[1], args[0]))
        case "mul":
            yield "a factor squared", lambda b, args: _real(b, "mul", _real(b, "mul", args[0], args[1]), args[1])
            yield "a quotient by the inverse", lambda b, args: _real(b, "mul", args[1], _real(b, "mul", args[0], 1.0))
        case "add":
            yield (
                "halves added twice",
                lambda b, args: _real(b, "mul", _real(b, "add", _real(b, "mul", args[0], 0.5), _real(b, "mul", args[1], 0.5)), 2.0),
            )
        case "max" | "min":
            kind = "min" if op.kind == "max" else "max"
            yield "negated both ways", lambda b, args: _real(b, "neg", _real(b, kind, *(_real(b, "neg", arg) for arg in args)))
        case _:
            pass


def _of_constants(op: Op) -> Iterator[tuple[str, Make]]:
    value = op.attr[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int):
        for step in (1, -1):
            yield f"{value + step} for {value}", _same(op, "constant", attr=(value + step,))
    elif value == -math.inf:
        yield "0 for -inf", _same(op, "constant", attr=(0.0,))
    elif math.isfinite(value):
        for other in (value * (1 + NUDGE), value * (1 - NUDGE), value + NUDGE):
            yield f"{value:g} nudged to {other:g}", _same(op, "constant", attr=(other,))
        for other in (-value, 2 * value, value**2, 0.0):
            yield f"{value:g} scaled to {other:g}", _same(op, "constant", attr=(other,))
        if value:
            yield f"1/{value:g} for it", _same(op, "constant", attr=(1 / value,))


def _of_comparisons(op: Op) -> Iterator[tuple[str, Make]]:
    predicate = str(op.attr[0])
    turned = {"le": "ge", "ge": "le", "lt": "gt", "gt": "lt", "eq": "eq", "ne": "ne"}
    for other in ("eq", "ne", "lt", "le", "gt", "ge"):
        if other != predicate:
            yield f"{other} for {predicate}", _same(op, "compare", 0, 1, attr=(other,))
    yield "mask transposed", _same(op, "compare", 1, 0)
    yield "turned round", _same(op, "compare", 1, 0, attr=(turned[predicate],))
    for i in (0, 1):
        for step in (1, -1):
            yield f"operand {i} moved by {step}", lambda b, args, i=i, step=step: _moved(b, op, args, i, step, predicate)
    strict = {"le": "lt", "ge": "gt", "lt": "le", "gt": "ge"}
    if predicate in strict:
        step = {"le": 1, "ge": -1, "lt": -1, "gt": 1}[predicate]
        yield "strict, one further on", lambda b, args: _moved(b, op, args, 1, step, strict[predicate])
        yield "strict, one further back", lambda b, args: _moved(b, op, args, 1, -step, strict[predicate])
        yield (
            "not of the opposite",
            lambda b, args: b.add("not", b.add("compare", *args[::-1], attr=(strict[predicate],), dtype="i1"), dtype="i1"),
        )


def _moved(b: Builder, op: Op, args: tuple[int, ...], place: int, step: int, predicate: str) -> int:
    """The comparison with an integer added to an operand."""
    if b.ops[args[place]].dtype != "index":
        raise ValueError("the operand is not an integer")
    one = b.add("constant", attr=(step,), dtype="index")
    new = b.add("add", args[place], one, dtype="index")
    operands = [new if i == place else arg for i, arg in enumerate(args)]
    return b.add("compare", *operands, attr=(predicate,), dtype="i1")


def _of_reductions(graph: Graph, op: Op) -> Iterator[tuple[str, Make]]:
    axes = tuple(str(axis) for axis in tuple_of(op.attr[-1]))
    present = graph.ordered({axis for arg in op.args for axis in graph.ops[arg].axes})
    for axis in present:
        if axis not in axes:
            yield f"over {axis}", _same(op, op.kind, *range(len(op.args)), attr=(*op.attr[:-1], (axis,)))
            yield f"over {axis} too", _same(op, op.kind, *range(len(op.args)), attr=(*op.attr[:-1], (*axes, axis)))
    if len(axes) > 1:
        for axis in axes:
            rest = tuple(other for other in axes if other != axis)
            yield f"not over {axis}", _same(op, op.kind, *range(len(op.args)), attr=(*op.attr[:-1], rest))
    if op.kind == "reduce":
        for kind in REDUCTIONS:
            if kind != op.attr[0]:
                yield f"{kind} for {op.attr[0]}", _same(op, "reduce", 0, attr=(kind, axes))
        yield "reduction dropped", lambda b, args: _filled(b, op, args[0])
        yield "mean for the reduction", lambda b, args: _mean(b, op, args[0], axes)
        return
    yield "operands swapped", _same(op, "contract", *range(len(op.args))[::-1])
    yield "max for sum", lambda b, args: b.add("reduce", _product(b, args), attr=("max", axes), dtype="f32")
    yield "a product, then a sum", lambda b, args: b.add("reduce", _product(b, args), attr=("sum", axes), dtype="f32")
    for i in range(len(op.args)):
        rest = [other for other in range(len(op.args)) if other != i]
        yield "an operand dropped", lambda b, args, rest=rest: b.add("reduce", args[rest[0]], attr=("sum", axes), dtype="f32")
        yield "sums before the product", lambda b, args, i=i: _summed_first(b, args, i, axes)


def _product(b: Builder, args: tuple[int, ...]) -> int:
    out = args[0]
    for arg in args[1:]:
        out = _real(b, "mul", out, arg)
    return out


def _summed_first(b: Builder, args: tuple[int, ...], place: int, axes: tuple[str, ...]) -> int:
    """The product of one operand's sum with the others' sum."""
    summed = [b.add("reduce", arg, attr=("sum", axes), dtype="f32") for arg in args]
    return _product(b, tuple(summed[place:] + summed[:place]))


def _mean(b: Builder, op: Op, arg: int, axes: tuple[str, ...]) -> int:
    out = b.add("reduce", arg, attr=op.attr, dtype="f32")
    for axis in axes:
        out = _real(b, "div", out, b.add("size", attr=(axis,), dtype="index"))
    return out


def _of_functions(graph: Graph, op: Op) -> Iterator[tuple[str, Make]]:
    yield "function dropped", lambda b, args: _filled(b, op, args[0])
    others = {"exp": "silu", "silu": "sigmoid", "rsqrt": "sqrt", "sqrt": "rsqrt", "sigmoid": "tanh", "tanh": "sigmoid", "sin": "cos"}
    others |= {"log": "sqrt", "cos": "sin", "neg": "abs", "gelu": "gelu_tanh", "abs": "relu", "relu": "abs", "erf": "tanh"}
    yield f"{others[op.kind]} for {op.kind}", _same(op, others[op.kind], 0)
    inner = graph.ops[op.args[0]]
    if inner.kind in ("add", "sub", "mul", "div"):
        for i in (0, 1):
            yield "an operand moved out", lambda b, args, i=i: _moved_out(b, op.kind, inner.kind, args[0], i)
    match op.kind:
        case "exp":
            yield "half as strong, squared", lambda b, args: _squared(b, _real(b, "exp", _real(b, "mul", args[0], 0.5)))
            yield "to base 2", lambda b, args: _real(b, "exp", _real(b, "mul", args[0], math.log(2)))
            yield "of the negative, inverted", lambda b, args: _real(b, "div", 1.0, _real(b, "exp", _real(b, "neg", args[0])))
        case "log":
            yield "to base 2", lambda b, args: _real(b, "mul", _real(b, "log", args[0]), 1 / math.log(2))
        case "rsqrt":
            yield "1 over the root", lambda b, args: _real(b, "div", 1.0, _real(b, "sqrt", args[0]))
            yield "without the root", lambda b, args: _real(b, "div", 1.0, args[0])
        case "silu":
            yield "x sigmoid(x)", lambda b, args: _real(b, "mul", args[0], _real(b, "sigmoid", args[0]))
        case _:
            pass


def _squared(b: Builder, arg: int) -> int:
    return _real(b, "mul", arg, arg)


def _moved_out(b: Builder, kind: str, inner: str, arg: int, place: int) -> int:
    """f(a) + e for f(a + e)."""
    operands = b.ops[arg].args
    value = _real(b, kind, operands[place])
    rest = operands[1 - place]
    return _real(b, inner, value, rest) if place == 0 else _real(b, inner, rest, value)
