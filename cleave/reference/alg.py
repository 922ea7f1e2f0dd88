"""
Interpreter tables of the `alg` dialect: in floats, and in finite fields.

A graph is called by its name. In floats its arguments are arrays over the axes of their types, in the order written there;
results likewise. Of an `alg.alternatives` one region runs, the program as written unless another is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_callable,
    impl_terminator,
    register_impls,
)

from ..bridge.alg import graphs_of
from ..dialects.alg import OPERATIONS, AlgOp, AlternativesOp, GraphOp, TensorType, YieldOp, enclosing_scope
from ..extents import Extent
from ..search.meaning import evaluate as field_values
from ..search.values import Space
from .dtypes import Array, held_in, rounded
from .evaluate import argument
from .meaning import Call, Setting, Shift, meaning
from .tensors import Named


class AlgFunctions(InterpreterFunctions):
    """
    The algebra in floats.

    `symbols` are the sizes of symbols; those missing are taken from the shapes of the arguments. `working` is the type that
    float arithmetic is done in; with `respect_dtypes` every value is rounded to the type it names. `alternative` is the
    region of an `alg.alternatives` that runs, `shift` as in `cleave.reference.evaluate`.
    """

    def __init__(
        self,
        symbols: Mapping[str, int] | None = None,
        working: DTypeLike = np.float64,
        *,
        respect_dtypes: bool = False,
        alternative: int = 0,
        shift: Shift | None = None,
    ) -> None:
        self.symbols = dict(symbols or {})
        self.working = np.dtype(working)
        self.respect_dtypes = respect_dtypes
        self.alternative = alternative
        self.shift = shift
        self.settings: dict[GraphOp, Setting] = {}

    @impl_callable(GraphOp)
    def call_graph(self, interpreter: Interpreter, op: GraphOp, args: PythonValues) -> PythonValues:
        """Runs a graph. Raises: ValueError for arguments whose shapes do not fit, KeyError for a symbol without a size."""
        shapes = [np.shape(arg) for arg in args]
        axes = {axis.name: axis for axis in op.declared()}
        symbols = {**sizes_from_shapes(op, shapes), **self.symbols}
        setting = Setting(axes, symbols, self.working, self.respect_dtypes, self.shift)
        self.settings[op] = setting
        values: list[Array] = []
        for arg, found, facts in zip(args, op.input_types, op.arg_attrs, strict=True):
            name = cast(StringAttr, facts.data["name"]).data
            values.append(argument(name, found.axes, found.dtype, arg, found.axes, setting).data)
        results = interpreter.run_ssacfg_region(op.body, tuple(values), op.sym_name.data)
        last = cast("YieldOp | AlternativesOp", op.body.block.last_op)
        given = last if isinstance(last, YieldOp) else cast(YieldOp, last.bodies[self.alternative].block.last_op)
        return tuple(
            self._result(result, cast(TensorType, value.type), output, setting)
            for result, value, output in zip(results, given.values, op.output_types, strict=True)
        )

    def _result(self, result: Array, found: TensorType, output: TensorType, setting: Setting) -> Array:
        full = Named(found.axes, result).full(output.axes, setting.sizes).astype(held_in(output.dtype, self.working))
        return rounded(full, output.dtype) if self.respect_dtypes else full

    @impl_terminator(YieldOp)
    def run_yield(self, interpreter: Interpreter, op: YieldOp, args: PythonValues) -> tuple[TerminatorValue, PythonValues]:
        """Gives the values back."""
        return ReturnedValues(args), ()

    @impl_terminator(AlternativesOp)
    def run_alternatives(self, interpreter: Interpreter, op: AlternativesOp, args: PythonValues) -> tuple[TerminatorValue, PythonValues]:
        """Runs the region that was asked for."""
        return ReturnedValues(interpreter.run_ssacfg_region(op.bodies[self.alternative], (), "alternative")), ()


def _run(functions: AlgFunctions, interpreter: Interpreter, op: AlgOp, args: PythonValues) -> PythonValues:
    graph = enclosing_scope(op)
    assert isinstance(graph, GraphOp), "an operation of the algebra runs inside a graph"
    operands = tuple(Named(found.axes, arg) for found, arg in zip(op.arg_types, args, strict=True))
    call = Call(op.kind, op.out_type.axes, op.out_type.dtype, op.attr(), operands, functions.settings[graph])
    return (meaning(call).data,)


for _kind, _operation in OPERATIONS.items():
    setattr(AlgFunctions, f"run_{_kind}", impl(_operation)(_run))
register_impls(AlgFunctions)


def sizes_from_shapes(op: GraphOp, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """
    The symbols that shapes of arguments tell: those that are the whole extent of an axis.

    Raises: ValueError where two arguments disagree, or one has another number of axes than its type.
    """
    extents: dict[str, Extent] = {axis.name: axis.extent for axis in op.declared()}
    names = {symbol.data.name for symbol in op.symbols}
    out: dict[str, int] = {}
    for found, shape in zip(op.input_types, shapes, strict=True):
        if len(found.axes) != len(shape):
            raise ValueError(f"an argument over [{', '.join(found.axes)}] has shape {list(shape)}")
        for axis, size in zip(found.axes, shape, strict=True):
            symbol = extents[axis].text
            if symbol in names and out.setdefault(symbol, size) != size:
                raise ValueError(f"symbol '{symbol}' is {out[symbol]} in one argument and {size} in another")
    return out


def run(module: ModuleOp, name: str, inputs: Sequence[Any], functions: AlgFunctions | None = None) -> tuple[Array, ...]:
    """The results of a graph of a module on arrays over the axes of its arguments."""
    interpreter = Interpreter(module)
    interpreter.register_implementations(functions or AlgFunctions())
    return interpreter.call_op(name, tuple(inputs))


@register_impls
class AlgFieldFunctions(InterpreterFunctions):
    """
    The algebra in finite fields: a graph called without arguments gives its results as residues at the points of a `Space`.

    The space draws the arguments, by position; two graphs that are equal as formal expressions have equal results.
    """

    def __init__(self, space: Space, alternative: int = 0) -> None:
        self.space = space
        self.alternative = alternative

    @impl_callable(GraphOp)
    def call_graph(self, interpreter: Interpreter, op: GraphOp, args: PythonValues) -> PythonValues:
        """The values of the results. The axes of the graph must be those of the space."""
        graph = graphs_of(op)[self.alternative]
        values = field_values(graph, self.space)
        return tuple(values[output.value] for output in graph.outputs)
