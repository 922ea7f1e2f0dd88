"""
Interpreter table of the `sched` dialect: its programs are called by their names.

A program's arguments are arrays in memory order, as `sched.program` lays them out, and so are its results; its kernels run tile by
tile on them, as `cleave.reference.sched` says, with a `TileFault` for what a schedule may not do.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl_callable, register_impls

from ..bridge.sched import program_of
from ..dialects.sched import ProgramOp
from .sched import run_program


@register_impls
class SchedFunctions(InterpreterFunctions):
    """Scheduled programs in float64. `symbols` are the run-time sizes; with `rounding` every value is rounded to its element type."""

    def __init__(self, symbols: Mapping[str, int] | None = None, *, rounding: bool = False) -> None:
        self.symbols = dict(symbols or {})
        self.rounding = rounding

    @impl_callable(ProgramOp)
    def call_program(self, interpreter: Interpreter, op: ProgramOp, args: PythonValues) -> PythonValues:
        """Runs a program. Raises: TileFault; ValueError for arrays of other shapes; KeyError for a symbol without a size."""
        return run_program(program_of(op), [np.asarray(arg) for arg in args], self.symbols, self.rounding)
