"""
From a PyTorch function or module to a graph of the algebra.

The function is traced (`tracing`), its operators are lowered in program order to nodes over atoms (`operators`), and the nodes
become a graph (`emit`). What a call's tensors have to do with it stands in `Captured.bindings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import sympy
import torch
from torch.export.graph_signature import InputKind

from ..errors import CleaveError
from ..extents import Extent
from ..graph import Graph, Symbol
from .bindings import ArgumentCheck, Bindings, Condition, InputBinding, OutputBinding, Relation, Source, SymbolRead, ViewDim
from .emit import Argument, Emitted, emit
from .naming import identifier, unique
from .operators import Result, lower
from .sizes import Size, converted, equal, from_torch, quotient, simplified, to_extent
from .tracing import Traced, argument_names, dim_name, memory_of, place_of, trace
from .values import DTYPES, Lowering, Node, Value

_CHECKS = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size", "_assert_async")
_MAY_COPY = ("reshape", "flatten", "contiguous", "to", "type_as", "unflatten", "view_as", "reshape_as", "clone")
_PYTHON: Mapping[str, str] = {"mul": "mul", "add": "add", "sub": "sub", "truediv": "div", "pow": "pow", "neg": "neg"}


@dataclass(frozen=True)
class Captured:
    """A graph and how a call meets it."""

    graph: Graph
    bindings: Bindings


@dataclass
class _Tensor:
    """A tensor that the program reads: where it comes from, what it is called, and its sizes."""

    source: Source
    name: str
    dtype: torch.dtype
    shape: tuple[Size, ...]
    weight: bool


@dataclass
class _State:
    """What lowering one traced program collects."""

    traced: Traced
    cx: Lowering = field(default_factory=Lowering)
    values: dict[Any, Any] = field(default_factory=dict[Any, Any])
    tensors: dict[str, _Tensor] = field(default_factory=dict[str, _Tensor])
    constants: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    equal: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def size(self, found: Any) -> Size:
        """The size of a traced dimension, in which symbols that the program names alike are one. Raises: CleaveError."""
        try:
            size = from_torch(found)
        except ValueError as error:
            self.cx.fail(str(error), "compute sizes by + - * // % only")
        return size if isinstance(size, int) or not self.equal else simplified(size.subs(self.equal, simultaneous=True))


def capture(function: Any, example_inputs: Sequence[Any], dynamic_shapes: Any = None, weights: Iterable[int | str] = ()) -> Captured:
    """
    The graph of a function or module, for arguments like the examples.

    `dynamic_shapes` is as for torch.export: for each argument, by position or name, the dimensions whose sizes are symbols, as
    `Dim("m")`, `Dim.DYNAMIC` or just `"m"`. `weights` names arguments, by position or name, that stay the same between calls;
    parameters and buffers always do. Raises: CleaveError, with the user's line, for what is not supported.
    """
    traced = trace(function, example_inputs, dynamic_shapes)
    state = _State(traced)
    _identify(state)
    marked = _marked(traced, weights)
    _placeholders(state, marked)
    results: list[Any] = []
    for node in traced.program.graph.nodes:
        if node.op == "output":
            results = list(node.args[0])
        elif node.op != "placeholder":
            state.values[node] = _lowered(state, node)
    return _finish(state, results)


def _marked(traced: Traced, weights: Iterable[int | str]) -> set[int]:
    """The flat positions of the arguments that are weights."""
    names = [leaf.name for leaf in traced.leaves]
    out: set[int] = set()
    for wanted in weights:
        if isinstance(wanted, int) and 0 <= wanted < len(names):
            out.add(wanted)
        elif wanted in names:
            out.add(names.index(str(wanted)))
        else:
            raise CleaveError(None, f"weights names {wanted!r}, which is not an argument", f"the arguments are {', '.join(names)}")
    return out


def _identify(state: _State) -> None:
    """Finds the symbols that the program gives one name: they are declared to be equal."""
    first: dict[str, Any] = {}
    user = [spec.arg.name for spec in state.traced.program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    nodes = {node.name: node for node in state.traced.program.graph.nodes if node.op == "placeholder"}
    for position, name in zip(state.traced.tensors, user, strict=True):
        for dim, declared in state.traced.leaves[position].dynamic.items():
            size = from_torch(nodes[name].meta["val"].shape[dim])
            if isinstance(size, int) or not size.is_Symbol or not dim_name(declared):
                continue
            kept = first.setdefault(dim_name(declared), size)
            if kept is not size:
                state.equal[size] = kept


def _placeholders(state: _State, marked: set[int]) -> None:
    """An input node for each tensor that the program reads; constants of one element become numbers."""
    traced = state.traced
    nodes = {node.name: node for node in traced.program.graph.nodes if node.op == "placeholder"}
    user = iter(traced.tensors)
    for spec in traced.program.graph_signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind == InputKind.USER_INPUT:
            position = next(user)
            tensor = _described(state, node, Source("argument", position), traced.leaves[position].name, position in marked)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            target = str(spec.target)
            tensor = _described(state, node, Source("state", target), target.removeprefix("owner."), True)
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            constant = traced.program.constants[spec.target]
            if constant.numel() == 1:
                state.values[node] = _folded(state.cx, constant)
                continue
            state.constants[str(spec.target)] = constant
            tensor = _described(state, node, Source("constant", str(spec.target)), str(spec.target), True)
        else:
            raise CleaveError(None, f"input '{spec.arg.name}' is not a tensor", "pass tensors and numbers")
        state.values[node] = tensor


def _folded(cx: Lowering, constant: torch.Tensor) -> Value:
    dims = tuple(() for _ in constant.shape)
    dtype = cx.name(constant.dtype)
    return Value(dims, cx.constant(constant.item(), "f32" if dtype in ("f16", "bf16") else dtype), constant.dtype)


def _described(state: _State, node: Any, source: Source, name: str, weight: bool) -> Value:
    cx = state.cx
    fake = node.meta["val"]
    cx.place, cx.op = "", f"argument '{name}'"
    shape = tuple(state.size(size) for size in fake.shape)
    name = unique(identifier(name, "arg"), [other.name for other in state.tensors.values()])
    key = f"{source.kind}:{source.key}"
    state.tensors[key] = _Tensor(source, name, fake.dtype, shape, weight)
    dims = tuple(cx.atoms.dim(size) for size in shape)
    cx.atoms.separate(atom for dim in dims for atom in dim)
    entries = tuple((dim, at, 0, 1) for at, dim in enumerate(dims))
    input_node = Node("input", (), tuple(atom for dim in dims for atom in dim), cx.name(fake.dtype), (key, entries))
    return Value(dims, input_node, fake.dtype)


def _lowered(state: _State, node: Any) -> Any:
    """What a traced operator stands for: a value, a size, or a tuple of values."""
    cx = state.cx
    cx.place = place_of(node) or cx.place or state.traced.place
    cx.op = _name(node.target)
    if node.op == "get_attr":
        return None
    found = node.meta.get("val")
    if isinstance(found, int | torch.SymInt) and not isinstance(found, bool):
        return state.size(found)
    if cx.op in _CHECKS:
        return None
    args = [_argument(state, arg) for arg in node.args]
    kwargs = {name: _argument(state, arg) for name, arg in node.kwargs.items()}
    if cx.op == "getitem":
        out = args[0][args[1]]
        if out is None and node.users:
            cx.fail("this result of the operator is not supported", "use the first result only")
        return out
    if isinstance(found, float | torch.SymFloat):
        return _number(cx, args)
    if not hasattr(node.target, "_schema"):
        cx.fail("this operator is not supported", "compute it outside of the compiled function")
    result = _result(state, found)
    out = lower(cx, node.target, args, kwargs, result)
    for value, one in zip(out if isinstance(out, tuple) else (out,), result.many or (result,), strict=True):
        if value is not None:
            shape = cx.shape(value)
            same = len(shape) == len(one.shape) and all(equal(a, b) for a, b in zip(shape, one.shape, strict=True))
            assert same, f"{cx.place}: {cx.op} was lowered to shape {shape}, traced as {one.shape}"
            assert value.dtype == one.dtype, f"{cx.place}: {cx.op} was lowered to {value.dtype}, traced as {one.dtype}"
    return out


def _name(target: Any) -> str:
    schema = getattr(target, "_schema", None)
    return str(schema.name).partition("::")[2] if schema is not None else str(getattr(target, "__name__", target))


def _argument(state: _State, arg: Any) -> Any:
    if isinstance(arg, list | tuple):
        return [_argument(state, part) for part in cast(Sequence[Any], arg)]
    return state.values[arg] if isinstance(arg, torch.fx.Node) else arg


def _result(state: _State, found: Any) -> Result:
    if isinstance(found, list | tuple):
        many = tuple(_result(state, one) for one in cast(Sequence[Any], found))
        return Result((), torch.float32, many)
    if not isinstance(found, torch.Tensor):
        state.cx.fail("this operator does not give a tensor", "compute it outside of the compiled function")
    return Result(tuple(state.size(size) for size in found.shape), found.dtype)


def _number(cx: Lowering, args: Sequence[Any]) -> Value:
    """A float computed from sizes by Python arithmetic, as a scalar."""
    nodes: list[Node] = []
    for arg in args:
        if isinstance(arg, Value):
            nodes.append(arg.node)
        else:
            nodes.append(cx.constant(arg, "f32") if isinstance(arg, float) else cx.number(arg, "f32"))
    if cx.op in ("sym_float", "_sym_float"):
        out = nodes[0]
    elif cx.op in ("_sym_sqrt", "sym_sqrt"):
        out = cx.node("sqrt", nodes, "f32")
    elif cx.op == "pow" and args[1] == -0.5:
        out = cx.node("rsqrt", nodes[:1], "f32")
    elif cx.op == "pow" and args[1] == 0.5:
        out = cx.node("sqrt", nodes[:1], "f32")
    elif cx.op in _PYTHON:
        out = cx.node(_PYTHON[cx.op], nodes, "f32")
    else:
        cx.fail("this arithmetic on sizes is not supported", "use + - * / ** and sqrt")
    return Value((), out, torch.float32)


def _finish(state: _State, results: Sequence[Any]) -> Captured:
    traced, cx = state.traced, state.cx
    outputs: list[Value] = []
    made: dict[Any, int] = {}
    bound: list[tuple[str, int, Any]] = []
    for node in results:
        root = memory_of(node)
        cx.place, cx.op = place_of(node), _name(node.target)
        value = state.values[node]
        if node.op == "placeholder" and value.node.kind == "input":
            source = state.tensors[value.node.attr[0]].source
            if source.kind == "argument":
                bound.append(("argument", int(source.key), None))
                continue
        if root.op == "placeholder" and not _copies(node):
            cx.place = cx.place or traced.place
            owner = argument_names(traced.program, [traced.leaves[at].name for at in traced.tensors])[root.name]
            cx.fail(f"returns a view of '{owner}', whose memory the caller would share", "return a clone, or take the view outside")
        if node not in made:
            made[node] = len(outputs)
            outputs.append(Value(value.dims, cx.narrow(value), value.dtype))
        bound.append(("graph", made[node], value))
    names = _symbol_names(state)
    facts = _facts(state)
    arguments = {key: Argument(one.name, DTYPES[one.dtype], one.weight) for key, one in state.tensors.items()}
    emitted = emit(cx, traced.name, arguments, outputs, names, facts)
    return Captured(emitted.graph, _bindings(state, emitted, bound))


def _copies(node: Any) -> bool:
    """Whether a chain of views has an operator that may copy, so that nobody can count on sharing memory."""
    while node.op == "call_function":
        if _name(node.target) in _MAY_COPY:
            return True
        source = next((arg for arg in node.args if isinstance(arg, torch.fx.Node)), None)
        if source is None:
            return False
        node = source
    return False


def _dynamic_dims(state: _State) -> Iterable[tuple[int, int, Any, Size, int]]:
    """Each declared dynamic dimension: flat position, dimension, declaration, size in tracing, size in the example."""
    for key, tensor in state.tensors.items():
        if tensor.source.kind == "argument" and key:
            leaf = state.traced.leaves[int(tensor.source.key)]
            for dim, declared in leaf.dynamic.items():
                yield int(tensor.source.key), dim, declared, tensor.shape[dim], leaf.value.shape[dim]


def _symbol_names(state: _State) -> dict[str, str]:
    """The program's names for symbols, by their name in tracing. Raises: CleaveError for a dynamic size that the program fixes."""
    names: dict[str, str] = {}
    for position, dim, declared, size, _ in _dynamic_dims(state):
        if isinstance(size, int):
            if getattr(getattr(declared, "type", None), "name", "") == "AUTO":
                continue
            name = state.traced.leaves[position].name
            found = f"dimension {dim} of '{name}' is declared dynamic, but the program fixes it to {size}"
            raise CleaveError(
                state.traced.place or None, found, "do not declare it dynamic, or compute without its value", op=state.traced.name
            )
        if size.is_Symbol and dim_name(declared):
            names.setdefault(str(size), dim_name(declared))
        elif getattr(declared, "root", None) is not None and len(size.free_symbols) == 1:
            names.setdefault(str(next(iter(size.free_symbols))), declared.root.__name__)
    return names


def _facts(state: _State) -> dict[str, Symbol]:
    """What is known of each symbol: the example's size, and bounds."""
    ranges = {str(symbol): bounds for symbol, bounds in state.traced.program.range_constraints.items()}
    out: dict[str, Symbol] = {}
    for tensor in state.tensors.values():
        for at, size in enumerate(tensor.shape):
            if isinstance(size, int):
                continue
            for symbol in sorted(size.free_symbols, key=str):
                bounds = ranges.get(str(symbol))
                positive = bounds is not None and bool(bounds.lower >= 1)
                hint = _hint(state, tensor, at, size, symbol)
                before = out.get(str(symbol))
                hints = before.hints if before is not None and before.hints else (() if hint is None else (hint,))
                out[str(symbol)] = Symbol(str(symbol), hints, 1, positive)
    return out


def _hint(state: _State, tensor: _Tensor, dim: int, size: Size, symbol: Any) -> int | None:
    """The value of a symbol in the example, from a size that is linear in it."""
    linear = _linear(size, symbol)
    if tensor.source.kind != "argument" or linear is None:
        return None
    value = state.traced.leaves[int(tensor.source.key)].value.shape[dim]
    return (value - linear[1]) // linear[0]


def _linear(size: Size, symbol: Any) -> tuple[int, int] | None:
    """The factor and rest of a size that is `factor * symbol + rest`, else None."""
    rest = size.subs(symbol, 0)
    factor = quotient(simplified(size - rest), symbol)
    return (factor, int(rest)) if rest.is_Integer and isinstance(factor, int) and factor > 0 else None


def _bindings(state: _State, emitted: Emitted, bound: Sequence[tuple[str, int, Any]]) -> Bindings:
    traced, names = state.traced, emitted.symbols
    inputs = tuple(
        InputBinding(entry.name, state.tensors[read.key].source, tuple(ViewDim(*dim) for dim in read.dims))
        for entry, read in zip(emitted.graph.inputs, emitted.reads, strict=True)
    )
    checks = tuple(
        ArgumentCheck(one.name, one.source, one.dtype, tuple(to_extent(size, names) for size in one.shape))
        for one in state.tensors.values()
    )
    by_result = iter(bound)
    outputs: list[OutputBinding] = []
    for entry in traced.outputs:
        if isinstance(entry, tuple):
            outputs.append(OutputBinding("fixed", value=entry[0]))
            continue
        kind, position, value = next(by_result)
        if kind == "argument":
            outputs.append(OutputBinding("argument", position))
        else:
            shape = tuple(to_extent(size, names) for size in state.cx.shape(value))
            outputs.append(OutputBinding("graph", position, shape, value.dtype))
    fixed = tuple((at, leaf.name, leaf.value) for at, leaf in enumerate(traced.leaves) if not isinstance(leaf.value, torch.Tensor))
    tensors = [leaf.value for leaf in traced.leaves if isinstance(leaf.value, torch.Tensor)]
    held = {str(one.source.key): traced.program.state_dict[one.source.key] for one in state.tensors.values() if one.source.kind == "state"}
    devices = [tensor.device for tensor in [*tensors, *held.values()]]
    return Bindings(
        inputs,
        tuple(outputs),
        checks,
        tuple(_reads(state, names)),
        tuple(_conditions(state, names)),
        fixed,
        traced.parameters,
        traced.in_spec,
        traced.out_spec,
        held,
        dict(state.constants),
        devices[0] if devices else torch.device("cpu"),
    )


def _reads(state: _State, names: Mapping[str, str]) -> Iterable[SymbolRead]:
    """Where each symbol's value is read: the first size that is linear in it."""
    seen: set[str] = set()
    for tensor in state.tensors.values():
        for at, size in enumerate(tensor.shape):
            if tensor.source.kind != "argument" or isinstance(size, int) or len(size.free_symbols) != 1:
                continue
            symbol = next(iter(size.free_symbols))
            linear = _linear(size, symbol)
            if linear is not None and str(symbol) not in seen:
                seen.add(str(symbol))
                yield SymbolRead(names[str(symbol)], int(tensor.source.key), at, *linear)


def _conditions(state: _State, names: Mapping[str, str]) -> Iterable[Condition]:
    """
    What tracing assumed beyond the sizes of arguments: bounds of symbols, and relations that the user's own branches asked for.
    """
    known = {
        str(symbol)
        for tensor in state.tensors.values()
        for size in tensor.shape
        if not isinstance(size, int)
        for symbol in size.free_symbols
    }
    for symbol, bounds in state.traced.program.range_constraints.items():
        if str(symbol) not in known:
            continue
        name = Extent(names[str(symbol)])
        if bounds.lower.is_Integer and bounds.lower > 0:
            yield Condition(name, ">=", Extent(str(int(bounds.lower))))
        if bounds.upper.is_Integer and bounds.upper < 2**40:
            yield Condition(name, "<=", Extent(str(int(bounds.upper))))
    environment: Any = next((_environment(node) for node in state.traced.program.graph.nodes if _environment(node) is not None), None)
    relations: Mapping[Any, Relation] = {
        sympy.StrictLessThan: "<",
        sympy.LessThan: "<=",
        sympy.StrictGreaterThan: ">",
        sympy.GreaterThan: ">=",
        sympy.Ne: "!=",
    }
    guards: Sequence[Any] = () if environment is None else environment.guards
    for guard in guards:
        assert environment is not None
        expr: Any = environment.simplify(guard.expr)
        relation: Relation | None = next((text for kind, text in relations.items() if isinstance(expr, kind)), None)
        if relation is None or not {str(symbol) for symbol in expr.free_symbols} <= known or (relation == "!=" and expr.args[1] in (0, 1)):
            continue
        try:
            left, right = (to_extent(converted(side), names) for side in expr.args)
        except ValueError:
            continue
        yield Condition(left, relation, right)


def _environment(node: Any) -> Any:
    mode = getattr(node.meta.get("val"), "fake_mode", None)
    return getattr(mode, "shape_env", None)
