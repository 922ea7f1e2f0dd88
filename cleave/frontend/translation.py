"""
The walk over a traced program: an input for each tensor that it reads, and what each operator in order stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import sympy
import torch
from torch.export.graph_signature import InputKind

from ..errors import CleaveError, internal_error
from .aliasing import argument_names, memory_of
from .bindings import Source
from .cuts import slice_length
from .dynamic_shapes import dim_name
from .naming import identifier, unique
from .operators import Result, lower
from .sizes import Size, converted, equal, from_torch, simplified
from .spelling import spelled
from .traced import Traced, guard_place, guards, module_of, operator_name, place_of, unsupported_branch
from .values import Lowering, Node, Value

_CHECKS = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size", "_assert_async")
_NUMBERS = ("item", "_local_scalar_dense")
_MEMORY = ("sym_storage_offset", "sym_stride")
_MAY_COPY = ("reshape", "flatten", "contiguous", "to", "type_as", "unflatten", "view_as", "reshape_as", "clone")
_SLICES = ("slice", "narrow", "select", "split", "split_with_sizes", "chunk", "sym_size")
_KINDS: Mapping[str, str] = {"argument": "argument '{}'", "state": "parameter or buffer '{}'", "constant": "constant"}
_PYTHON: Mapping[str, str] = {"mul": "mul", "add": "add", "sub": "sub", "truediv": "div", "pow": "pow", "neg": "neg"}


@dataclass(frozen=True)
class ReadTensor:
    """A tensor that the program reads: where it comes from, what it is called, and its sizes."""

    source: Source
    name: str
    dtype: torch.dtype
    shape: tuple[Size, ...]
    weight: bool


@dataclass(frozen=True)
class Returned:
    """A result: a value to compute, shared by equal results, or the flat argument that is returned as it is."""

    value: Value | None = None
    argument: int = -1


@dataclass
class Translation:
    """
    What translating one traced program collects.

    `results` are in the order of the program's; `names` are those that the program gives to symbols, `known` the symbols in sizes of
    arguments; `assumed` are sizes that must turn out equal in every call; `unread` is the error for something that tracing assumed and
    sizes cannot hold.
    """

    traced: Traced
    cx: Lowering = field(default_factory=Lowering)
    values: dict[Any, Any] = field(default_factory=dict[Any, Any])
    tensors: dict[str, ReadTensor] = field(default_factory=dict[str, ReadTensor])
    constants: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    results: list[Returned] = field(default_factory=list[Returned])
    names: dict[str, str] = field(default_factory=dict[str, str])
    known: set[Any] = field(default_factory=set[Any])
    assumed: list[tuple[Size, Size]] = field(default_factory=list[tuple[Size, Size]])
    unread: CleaveError | None = None
    _equal: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def declare_equal(self, size: Size, kept: Size) -> None:
        """From now on, one size is written as another. Sizes that are no symbols are checked in every call."""
        if not size.is_Symbol:
            self.assumed.append((size, kept))
        kept = self.canonical(kept)
        self._equal = {old: new if isinstance(new, int) else simplified(new.subs(size, kept)) for old, new in self._equal.items()}
        self._equal[size] = kept

    def renamed(self, size: Size) -> Size:
        """The size with only its symbols replaced by those that stand for them."""
        table = {old: new for old, new in self._equal.items() if old.is_Symbol}
        return size if isinstance(size, int) else simplified(size.subs(table, simultaneous=True))

    def size(self, found: Any) -> Size:
        """The size of a traced dimension, in which symbols that the program names alike are one. Raises: CleaveError."""
        size = self.canonical(self.traced_size(found))
        if not isinstance(size, int) and not self.known.issuperset(size.free_symbols):
            self.cx.fail("a size depends on the values of a tensor", "use shapes that are known from those of the arguments")
        return size

    def traced_size(self, found: Any) -> Size:
        """The size of a traced dimension, as it is traced. Raises: CleaveError for one that sizes cannot hold."""
        try:
            return from_torch(found)
        except ValueError:
            self.cx.fail(f"size '{spelled(found.node.expr, self.names)}' is not made of + - * // % min max", "compute sizes by these only")

    def traced_sizes(self, node: Any) -> list[Size]:
        """The sizes of a traced tensor, none for anything else. Raises: CleaveError as `traced_size`."""
        found = node.meta.get("val")
        return [self.traced_size(size) for size in found.shape] if isinstance(found, torch.Tensor) else []

    def at(self, node: Any) -> None:
        """From now on, errors are about a traced operator."""
        self.cx.place = place_of(node) or self.cx.place or self.traced.place
        self.cx.op = operator_name(node.target)

    def canonical(self, size: Size) -> Size:
        """The size with each symbol replaced by the one that stands for it."""
        return size if isinstance(size, int) or not self._equal else simplified(size.subs(self._equal, simultaneous=True))


def translate(traced: Traced, weights: set[int]) -> Translation:
    """
    The values of a program; `weights` are the flat positions of arguments that stay the same between calls.

    Raises: CleaveError at the first operator that is not supported, or that a bug of the lowering meets.
    """
    state = Translation(traced)
    _refuse_transforms(state)
    _identify(state)
    _placeholders(state, weights)
    for node in traced.program.graph.nodes:
        if node.op == "output":
            made: dict[Any, Returned] = {}
            for one in node.args[0]:
                if one not in made:
                    made[one] = _returned(state, one)
                state.results.append(made[one])
        elif node.op != "placeholder":
            try:
                state.values[node] = _lowered(state, node)
            except CleaveError as error:
                module = module_of(node)
                if not module:
                    raise
                raise CleaveError(error.place, f"{error.found} (in {module})", error.advice, error.op) from error
            except Exception as error:
                raise internal_error(state.cx.place or None, error, op=state.cx.op) from error
    if state.unread is not None:
        raise state.unread
    return state


def _refuse_transforms(state: Translation) -> None:
    """
    Raises: CleaveError for a part that `torch.vmap` or `torch.func` runs on tensors of their own, of which the trace does not tell.
    """
    for node in state.traced.program.graph.nodes:
        state.cx.place, state.cx.op = place_of(node) or state.traced.place, "torch.func"
        if not str(getattr(node.target, "__module__", "")).startswith("torch._functorch"):
            continue
        if "grad" in operator_name(node.target):
            state.cx.fail("gradients are taken in the function", "compile what is inside, or a function that computes them")
        state.cx.fail("vmap and other transforms of functions are not supported", "write out what they do, as by a batch dimension")


def _identify(state: Translation) -> None:
    """
    Finds sizes that are declared to be equal, because the program gives their symbols one name, and sizes that tracing took to be
    equal without replacing one by the other, as a broadcast of `x[:32]` against x does; calls are checked for these.
    """
    first: dict[str, Any] = {}
    user = [spec.arg.name for spec in state.traced.program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    nodes = {node.name: node for node in state.traced.program.graph.nodes if node.op == "placeholder"}
    for position, name in zip(state.traced.tensors, user, strict=True):
        for dim, declared in state.traced.leaves[position].dynamic.items():
            size = from_torch(nodes[name].meta["val"].shape[dim])
            if isinstance(size, int) or not size.is_Symbol or not dim_name(declared):
                continue
            state.names[str(size)] = dim_name(declared)
            kept = first.setdefault(dim_name(declared), size)
            if kept is not size:
                state.declare_equal(size, kept)
    state.known.update(
        symbol for node in nodes.values() for size in state.traced_sizes(node) if not isinstance(size, int) for symbol in size.free_symbols
    )
    for node in state.traced.program.graph.nodes:
        if operator_name(node.target) == "slice":
            state.at(node)
            _measure_slice(state, node)
    for one, other in _paired(state):
        one, other = state.canonical(one), state.canonical(other)
        if not isinstance(one, int) and not isinstance(other, int) and other.is_Symbol and not equal(one, other):
            state.declare_equal(other, one)
    for guard, expr in guards(state.traced):
        if isinstance(expr, sympy.Eq):
            try:
                made = [converted(side) for side in expr.args]
            except ValueError:
                # Where torch asked, an operator with that size is to be named first.
                state.unread = state.unread or unsupported_branch(guard_place(guard) or state.traced.place, expr, state.names)
                if guard_place(guard):
                    raise state.unread from None
                continue
            sides = sorted(made, key=lambda side: (getattr(side, "is_Atom", True), str(side)))
            if not isinstance(sides[0], int):
                state.declare_equal(sides[0], sides[1])


def _measure_slice(state: Translation, node: Any) -> None:
    """
    Compares the traced length of a slice with what its bounds give.

    A symbol of its own, which some versions of torch give it, is written by the sizes that it comes from; a length that tracing
    took to be another size is checked in every call.
    """
    values: dict[str, Any] = dict(zip(("dim", "start", "end", "step"), (0, None, None, 1), strict=True))
    values.update(zip(("dim", "start", "end", "step"), node.args[1:], strict=False))
    start, end = (state.traced_size(at.meta["val"]) if isinstance(at, torch.fx.Node) else at for at in (values["start"], values["end"]))
    size = state.canonical(state.traced_sizes(node.args[0])[values["dim"]])
    given, traced = slice_length(size, start, end, values["step"]), state.traced_sizes(node)[values["dim"]]
    if not isinstance(traced, int) and traced.is_Symbol and traced not in state.known:
        state.declare_equal(traced, given)
    elif not equal(given, state.canonical(traced)):
        state.assumed.append((given, traced))


def _paired(state: Translation) -> Iterable[tuple[Size, Size]]:
    """Sizes that an operator pairs although tracing does not compare them: keys and values of an attention."""
    for node in state.traced.program.graph.nodes:
        if operator_name(node.target) == "scaled_dot_product_attention":
            state.at(node)
            key, value = (arg.meta["val"].shape for arg in node.args[1:3])
            yield state.traced_size(key[-2]), state.traced_size(value[-2])


def _placeholders(state: Translation, marked: set[int]) -> None:
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
                state.cx.place, state.cx.op = traced.place, f"constant '{spec.target}'"
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


def _described(state: Translation, node: Any, source: Source, name: str, weight: bool) -> Value:
    cx = state.cx
    fake = node.meta["val"]
    used = next((line for line in map(place_of, node.users) if line), "") if source.kind == "constant" else ""
    cx.place, cx.op = used or state.traced.place, _KINDS[source.kind].format(name)
    dtype = cx.name(fake.dtype)
    shape = tuple(state.size(size) for size in fake.shape)
    name = unique(identifier(name, "arg"), [other.name for other in state.tensors.values()])
    key = f"{source.kind}:{source.key}"
    state.tensors[key] = ReadTensor(source, name, fake.dtype, shape, weight)
    dims = tuple(cx.atoms.dim(size) for size in shape)
    cx.atoms.separate(atom for dim in dims for atom in dim)
    entries = tuple((dim, at, 0, 1) for at, dim in enumerate(dims))
    input_node = Node("input", (), tuple(atom for dim in dims for atom in dim), dtype, (key, entries))
    return Value(dims, input_node, fake.dtype)


def _lowered(state: Translation, node: Any) -> Any:
    """What a traced operator stands for: a value, a size, or a tuple of values."""
    cx = state.cx
    state.at(node)
    if node.op == "get_attr":
        return None
    if cx.op in _NUMBERS:
        cx.fail("takes a number from the values of a tensor", "leave it a tensor, which broadcasts as a number does")
    found = node.meta.get("val")
    if isinstance(found, int | torch.SymInt) and not isinstance(found, bool):
        return None if cx.op in _MEMORY else state.size(found)
    if cx.op in _CHECKS or isinstance(found, bool | torch.SymBool):
        return None
    args = [_argument(state, arg) for arg in node.args]
    kwargs = {name: _argument(state, arg) for name, arg in node.kwargs.items()}
    if cx.op == "getitem":
        out = args[0][args[1]]
        if out is None and node.users:
            cx.op = operator_name(node.args[0].target)
            cx.fail(f"{_result_name(*node.args)} is not supported", "use the first result only")
        return out
    if isinstance(found, float | torch.SymFloat):
        return _number(cx, args)
    if not hasattr(node.target, "_schema"):
        cx.fail("this operator is not supported", "compute it outside of the compiled function")
    result = _result(state, found)
    cx.only_sliced = bool(node.all_input_nodes) and all(operator_name(user.target) in _SLICES for user in node.all_input_nodes[0].users)
    out = lower(cx, node.target, args, kwargs, result)
    for value, one in zip(out if isinstance(out, tuple) else (out,), result.many or (result,), strict=True):
        if value is not None:
            shape = cx.shape(value)
            same = len(shape) == len(one.shape) and all(equal(a, b) for a, b in zip(shape, one.shape, strict=True))
            assert same, f"lowered to shape {shape}, traced as {one.shape}"
            assert value.dtype == one.dtype, f"lowered to {value.dtype}, traced as {one.dtype}"
    return out


def _result_name(node: Any, place: int) -> str:
    """What a result of a traced operator with several is called."""
    name = node.target._schema.returns[place].name if hasattr(node.target, "_schema") else None
    return f"its result '{name}'" if name else f"its result {place}, counted from 0,"


def _argument(state: Translation, arg: Any) -> Any:
    if isinstance(arg, list | tuple):
        return [_argument(state, part) for part in cast(Sequence[Any], arg)]
    if not isinstance(arg, torch.fx.Node):
        return arg
    if isinstance(arg.meta.get("val"), bool | torch.SymBool):
        state.cx.fail("takes a comparison of sizes as a number", "branch on it instead")
    return state.values[arg]


def _result(state: Translation, found: Any) -> Result:
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


def _returned(state: Translation, node: Any) -> Returned:
    """A result in the program's dtype. Raises: CleaveError for a view of an argument, whose memory the caller would share."""
    traced, cx = state.traced, state.cx
    cx.place, cx.op = place_of(node) or traced.place, operator_name(node.target)
    if cx.op == "getitem":
        cx.op = operator_name(node.args[0].target)
    value = state.values[node]
    if node.op == "placeholder" and value.node.kind == "input":
        source = state.tensors[value.node.attr[0]].source
        if source.kind == "argument":
            return Returned(argument=int(source.key))
    root = memory_of(node)
    if root.op == "placeholder" and not _copies(node):
        owner = argument_names(traced.program, [traced.leaves[at].name for at in traced.tensors])[root.name]
        cx.fail(f"returns a view of '{owner}', whose memory the caller would share", "return a clone, or take the view outside")
    return Returned(Value(value.dims, cx.narrow(value), value.dtype))


def _copies(node: Any) -> bool:
    """Whether a chain of views has an operator that may copy, so that nobody can count on sharing memory."""
    while node.op == "call_function":
        if operator_name(node.target) in _MAY_COPY:
            return True
        source = next((arg for arg in node.args if isinstance(arg, torch.fx.Node)), None)
        if source is None:
            return False
        node = source
    return False
