"""Masks, programs and questions for the tests of tiles that run longest first."""

from __future__ import annotations

from cleave.graph import Graph
from cleave.schedule.program import Kernel, Launch, Load, Program

from .programs import Sketch
from .test_ranges import (
    FEW,
    documents,
    ranged,
)

FIRST = ", the longest m first"


def recent_documents(s: Sketch) -> int:
    """Rows see the 100 columns around their own in the same document, which do not tell rows and columns apart."""
    near = s.op(
        "compare", s.op("sub", s.op("iota", attr=("m",)), s.op("iota", attr=("n",))), s.builder.add("constant", attr=(100,)), attr=("lt",)
    )
    return s.op("and", near, documents(s))


def above(s: Sketch) -> int:
    """Rows see the columns that a mask lets them see and whose score is above 0."""
    return s.op("and", 3, s.op("compare", s.contract(0, 1, over="d"), s.builder.add("constant", attr=(0.0,)), attr=("gt",)))


def documents_above(s: Sketch) -> int:
    """Of the same document, with scores above 0."""
    return s.op("and", documents(s), s.op("compare", s.contract(0, 1, over="d"), s.builder.add("constant", attr=(0.0,)), attr=("gt",)))


def longest(graph: Graph) -> Program:
    """The best program whose longest tiles are first."""
    return ranged(graph, options=FEW, ordered=True)[0]


def bounded(program: Program) -> Kernel:
    """The kernel that is launched last."""
    name = [step.kernel for step in program.steps if isinstance(step, Launch)][-1]
    return next(kernel for kernel in program.kernels if kernel.name == name)


def order_buffer(program: Program) -> str:
    """The buffer whose elements say where the programs of the last kernel begin: what that loads first."""
    return next(statement.buffer.name for statement in bounded(program).body if isinstance(statement, Load))
