"""
Tracing a function or module with torch.export: the graph of operators, its tensors, symbols and the user's lines.

The call is flattened here: tensors become the traced arguments, everything else is fixed. Dynamic dimensions are traced as
`Dim.DYNAMIC` and compared with what the program needs afterwards, so that a guard of tracing (a size other than 1) never
becomes a restriction. An example size of 0 or 1 would be taken for a broadcast; such tensors are replaced by larger ones.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, cast

import torch
import torch.fx.traceback as fx_traceback
from torch.export.graph_signature import InputKind
from torch.fx.experimental import _config as fx_config
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..errors import CleaveError
from ..extents import NAME
from .naming import identifier, unique

_LIBRARIES = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api.py"),
    "<eval_with_key>",
    "<string>",
    "<frozen",
)
_DEVICES = ("cpu", "cuda")
_LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch.export", "torch._dynamo")
_PLACE = "cleave_place"
_DATA_DEPENDENT = "data-dependent"
_config: Any = fx_config
_ARGUMENT = re.compile(r"L\['tensors'\]\[(\d+)\]\.size\(\)\[(\d+)\]")


@dataclass(frozen=True)
class Leaf:
    """An argument of the call: its name, its tensor or fixed value, and the dynamic dimensions declared for it."""

    name: str
    value: Any
    dynamic: Mapping[int, Any] = field(default_factory=dict[int, Any])


@dataclass(frozen=True)
class Traced:
    """
    What tracing gives.

    `leaves` are the flat arguments and `tensors` the positions of those that are tensors, in the order of the program's user
    inputs. `outputs` are the flat results: the position among the program's results, or a fixed value as a one-tuple.
    """

    program: Any
    name: str
    place: str
    leaves: tuple[Leaf, ...]
    tensors: tuple[int, ...]
    parameters: tuple[str, ...]
    in_spec: Any
    out_spec: Any
    outputs: tuple[int | tuple[Any], ...]


def trace(function: Any, example_inputs: Sequence[Any], dynamic_shapes: Any) -> Traced:
    """
    Traces a call. Raises: CleaveError, with the user's line, for whatever torch.export refuses and for declarations that do not fit.
    """
    if not callable(function):
        found = f"there is nothing to compile in {function!r:.40}, of type {type(function).__name__}"
        raise CleaveError(_user_line(inspect.currentframe()) or None, found, "give a function or a module")
    if isinstance(function, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        found = f"{function.original_name if isinstance(function, torch.jit.ScriptModule) else function.name} is a script of torch.jit"
        raise CleaveError(_user_line(inspect.currentframe()) or None, found, "give the module or function that it was made from")
    args = tuple(example_inputs)
    parameters = _parameters(function, len(args))
    leaves, in_spec = _flatten(args, parameters, dynamic_shapes)
    tensors = tuple(at for at, leaf in enumerate(leaves) if isinstance(leaf.value, torch.Tensor))
    place = _definition(function)
    for leaf in (leaves[at] for at in tensors):
        if leaf.value.layout != torch.strided or leaf.value.device.type not in _DEVICES:
            kind = str(leaf.value.layout).removeprefix("torch.")
            raise CleaveError(place, f"argument '{leaf.name}' is {kind} on {leaf.value.device.type}", "pass a dense tensor on cpu or cuda")
    structure = _Structure()
    call = _Call(function, leaves, in_spec, structure)
    shapes = tuple(_hints(leaves[at].dynamic) or None for at in tensors)
    # A tensor given twice would be traced as one argument, so each gets an object of its own.
    examples = tuple(_roomy(leaves[at]).detach() for at in tensors)
    # Choosing an order for the products of an einsum looks at sizes, and would fix those that are dynamic.
    unordered = cast(Any, torch.backends.opt_einsum).flags(enabled=False)
    with _quiet(), _config.patch(backed_size_oblivious=True), torch.no_grad(), unordered:
        try:
            program = torch.export.export(call, examples, dynamic_shapes=(shapes,) if tensors else None, strict=False)
            if any(is_mutation(node) for node in program.graph.nodes):
                refuse_input_mutation(program, argument_names(program, [leaves[at].name for at in tensors]))
                program = _functional(program)
        except CleaveError:
            raise
        except Exception as error:
            cause = error.__cause__ if isinstance(error, _Enveloped) and isinstance(error.__cause__, Exception) else error
            raise _located(cause, [leaves[at].name for at in tensors], place, call.owner) from cause
    name = identifier(getattr(function, "__name__", type(function).__name__), "graph")
    return Traced(program, name, place, tuple(leaves), tensors, parameters, in_spec, structure.spec, tuple(structure.outputs))


def place_of(node: Any) -> str:
    """The user's `file:line` of a traced operator, empty where unknown."""
    found: Mapping[str, Any] = node.meta.get("custom") or {}
    return str(found.get(_PLACE, ""))


def module_of(node: Any) -> str:
    """
    The module of PyTorch's own that calls an operator, as `the ReLU 'layers.1'`; nothing for one of the user's, whose line says enough.
    """
    entries: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
    path, kind = list(entries.values())[-1] if entries else ("", "")
    name = str(kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}")
    return _described(str(path), name.rpartition(".")[2]) if name.startswith("torch.") else ""


def _described(path: str, kind: str) -> str:
    path = path.removeprefix("owner").removeprefix(".")
    return f"the {kind} '{path}'" if path else f"the {kind}"


def operator_name(target: Any) -> str:
    """The name of an operator, without namespace and overload."""
    schema = getattr(target, "_schema", None)
    return str(schema.name).partition("::")[2] if schema is not None else str(getattr(target, "__name__", target))


def guards(traced: Traced) -> list[tuple[Any, Any]]:
    """What tracing assumed of sizes, each with its expression after all that is known to be equal."""
    for node in traced.program.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        environment: Any = getattr(mode, "shape_env", None)
        if environment is not None:
            return [(guard, environment.simplify(guard.expr)) for guard in environment.guards]
    return []


def is_mutation(node: Any) -> bool:
    """Whether a traced operator writes to one of its arguments."""
    return node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False)


def aliased(node: Any) -> Any:
    """The argument whose memory a traced operator's result may share, or None."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return None
    shared = {name for one in schema.returns if one.alias_info is not None for name in one.alias_info.before_set}
    if not shared and schema.returns and str(schema.returns[0].type) == "List[Tensor]":
        shared = {"*"}
    for argument, value in zip(schema.arguments, node.args, strict=False):
        if argument.alias_info is not None and (shared & argument.alias_info.before_set or "*" in shared):
            return value
    return None


def memory_of(node: Any) -> Any:
    """The traced node that made the memory in which a result lives, through all views that may share it."""
    while True:
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem":
            node = node.args[0]
            continue
        source = aliased(node)
        if source is None or not hasattr(source, "op"):
            return node
        node = source


def argument_names(program: Any, tensors: Sequence[str]) -> dict[str, str]:
    """What the user calls each placeholder: an argument's name, or that of a parameter, buffer or constant."""
    user = iter(tensors)
    out: dict[str, str] = {}
    for spec in program.graph_signature.input_specs:
        own = next(user) if spec.kind == InputKind.USER_INPUT else str(spec.target or spec.arg.name)
        out[spec.arg.name] = own.removeprefix("owner.")
    return out


def refuse_input_mutation(program: Any, names: Mapping[str, str]) -> None:
    """Raises: CleaveError for an operator that writes to an argument, parameter or buffer."""
    for node in program.graph.nodes:
        if not is_mutation(node):
            continue
        for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
            if argument.alias_info is None or not argument.alias_info.is_write or not hasattr(value, "op"):
                continue
            root = memory_of(value)
            if root.op == "placeholder":
                raise CleaveError(
                    place_of(node) or None,
                    f"writes to '{names.get(root.name, root.name)}' in place, which ends the region that can be compiled",
                    "return the new value, or write to a clone",
                    op=operator_name(node.target),
                )


def _functional(program: Any) -> Any:
    """The program with in-place operators replaced, user lines kept."""
    places = {node.name: node.meta.get("custom") for node in program.graph.nodes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch warns about its own copying of tree specifications
        out = program.run_decompositions({})
    last: Any = None
    for node in out.graph.nodes:
        for source in node.meta.get("from_node", ()):
            last = places.get(source.name) or last
        if node.op == "call_function" and not node.meta.get("custom"):
            node.meta["custom"] = last
    return out


class _Places(TorchFunctionMode):
    """Marks every traced operator with the user's line that called it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with fx_traceback.annotate({_PLACE: _user_line(inspect.currentframe())}):
            return func(*args, **(kwargs or {}))


def _user_line(frame: FrameType | None) -> str:
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def is_user_file(filename: str) -> bool:
    """Whether a file is the user's: not torch's, nor of this package."""
    return not filename.startswith(_LIBRARIES) and not filename.endswith(os.sep + "contextlib.py")


@dataclass
class _Structure:
    """The structure of a result: how to put it together, and where each flat result is."""

    spec: Any = None
    outputs: list[int | tuple[Any]] = field(default_factory=list["int | tuple[Any]"])


class _Call(torch.nn.Module):
    """The function as a module over its tensor arguments. Calling it describes its result in `structure`."""

    def __init__(self, function: Any, leaves: Sequence[Leaf], spec: Any, structure: _Structure) -> None:
        super().__init__()
        owner = getattr(function, "__self__", None)
        self.owner = function if isinstance(function, torch.nn.Module) else owner if isinstance(owner, torch.nn.Module) else None

        # Held by a closure: torch.export puts attributes of modules back to what they were before the call.
        def call(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
            given = iter(tensors)
            flat = [next(given) if isinstance(leaf.value, torch.Tensor) else leaf.value for leaf in leaves]
            return _flat_results(function(*pytree.tree_unflatten(flat, spec)), structure)

        self.call: Callable[[Sequence[torch.Tensor]], tuple[torch.Tensor, ...]] = call

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Calls the function with the tensors put among the fixed arguments."""
        try:
            with _Places(), fx_traceback.preserve_node_meta():
                return self.call(tensors)
        except RuntimeError as error:
            if _DATA_DEPENDENT in str(error):
                raise _Enveloped from error
            raise


def _flat_results(result: Any, structure: _Structure) -> tuple[torch.Tensor, ...]:
    results, structure.spec = pytree.tree_flatten(result)
    structure.outputs.clear()
    out: list[torch.Tensor] = []
    for one in results:
        if isinstance(one, torch.Tensor):
            structure.outputs.append(len(out))
            out.append(one)
        elif one is None or isinstance(one, bool | int | float | str):
            structure.outputs.append((one,))
        else:
            raise TypeError(f"a result of type {type(one).__name__} is not supported")
    return tuple(out)


def _parameters(function: Any, count: int) -> tuple[str, ...]:
    """The names of the positional parameters that a call of that many arguments fills."""
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        declared = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return tuple(f"arg{at}" for at in range(count))
    names = [p.name for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    spread = next((p.name for p in declared if p.kind == p.VAR_POSITIONAL), "arg")
    return tuple(names[at] if at < len(names) else f"{spread}{at - len(names)}" for at in range(count))


def _flatten(args: tuple[Any, ...], parameters: Sequence[str], dynamic_shapes: Any) -> tuple[list[Leaf], Any]:
    paths, spec = pytree.tree_flatten_with_path(args)
    declared = _declarations(parameters, dynamic_shapes)
    leaves: list[Leaf] = []
    for path, value in paths:
        keys = [getattr(key, "idx", getattr(key, "key", getattr(key, "name", None))) for key in path]
        base = identifier("_".join([parameters[int(str(keys[0]))], *map(str, keys[1:])]), "arg")
        name = unique(base, [leaf.name for leaf in leaves])
        found = declared[int(str(keys[0]))]
        for key in keys[1:]:
            found = None if found is None else _entry(found, key, name)
        leaves.append(Leaf(name, value, _dynamic(found, value, name)))
    return leaves, spec


def _declarations(parameters: Sequence[str], dynamic_shapes: Any) -> list[Any]:
    if dynamic_shapes is None:
        return [None] * len(parameters)
    if isinstance(dynamic_shapes, Mapping):
        by_name = cast("Mapping[Any, Any]", dynamic_shapes)
        unknown = [key for key in by_name if key not in parameters]
        if unknown:
            raise CleaveError(None, f"dynamic_shapes names '{unknown[0]}'", f"the arguments are {', '.join(parameters)}")
        return [by_name.get(name) for name in parameters]
    if not isinstance(dynamic_shapes, Sequence) or isinstance(dynamic_shapes, str):
        found = type(dynamic_shapes).__name__
        raise CleaveError(None, f"dynamic_shapes is of type {found}", "give a tuple with one entry for each argument, or a mapping by name")
    dynamic_shapes = cast("Sequence[Any]", dynamic_shapes)
    if len(dynamic_shapes) != len(parameters):
        raise CleaveError(None, f"dynamic_shapes has {len(dynamic_shapes)} entries for {len(parameters)} arguments", "give one for each")
    return list(dynamic_shapes)


def _entry(declared: Any, key: Any, name: str) -> Any:
    try:
        return declared[key]
    except (KeyError, IndexError, TypeError):
        raise CleaveError(None, f"dynamic_shapes has no entry for '{name}'", "follow the structure of the arguments") from None


def _dynamic(declared: Any, value: Any, name: str) -> dict[int, Any]:
    """The dynamic dimensions of one tensor: a Dim, a hint such as Dim.DYNAMIC, or a name for each."""
    if declared is None or not isinstance(value, torch.Tensor):
        return {}
    if not isinstance(declared, Mapping | Sequence) or isinstance(declared, str):
        found = f"'{declared}'" if isinstance(declared, str) else f"of type {type(declared).__name__}"
        raise CleaveError(None, f"dynamic_shapes of '{name}' is {found}", "give the sizes that vary by dimension, as in {0: Dim('m')}")
    by_dim = cast("Mapping[Any, Any] | Sequence[Any]", declared)
    items = by_dim.items() if isinstance(by_dim, Mapping) else enumerate(by_dim)
    out: dict[int, Any] = {}
    for dim, wanted in items:
        if not isinstance(dim, int) or not -value.dim() <= dim < value.dim():
            raise CleaveError(None, f"dynamic_shapes of '{name}' names dimension {dim} of {value.dim()}", "count from 0")
        if isinstance(wanted, str) and not NAME.match(wanted):
            raise CleaveError(None, f"dynamic dimension '{wanted}' of '{name}' is not a name", "use letters, digits and _")
        if wanted is None or isinstance(wanted, int) or wanted == torch.export.Dim.STATIC:
            continue
        out[dim % value.dim()] = wanted
    return out


def dim_name(declared: Any) -> str:
    """The name that the program gives to a dynamic dimension, or none."""
    if isinstance(declared, str):
        return declared
    name = getattr(declared, "__name__", "")
    return name if NAME.match(name) and not is_derived(declared) and not _is_hint(declared) else ""


def is_derived(declared: Any) -> bool:
    """Whether a dimension is an expression over another, as `2 * Dim("n")` is."""
    return hasattr(declared, "root") and hasattr(declared, "fn")


def _is_hint(declared: Any) -> bool:
    return type(declared).__name__ == "_DimHint"


def _hints(dynamic: Mapping[int, Any]) -> dict[int, Any]:
    """What torch.export is told: expressions as they are, every other dimension only that it is dynamic."""
    keep = any(is_derived(wanted) for wanted in dynamic.values())
    return {dim: wanted if keep or _is_hint(wanted) or is_derived(wanted) else torch.export.Dim.DYNAMIC for dim, wanted in dynamic.items()}


def _roomy(leaf: Leaf) -> torch.Tensor:
    """The example tensor, its dynamic dimensions at least 2 long."""
    value: torch.Tensor = leaf.value
    if not any(value.shape[dim] < 2 for dim in leaf.dynamic):
        return value
    shape = [{0: 6, 1: 7}.get(size, size) if dim in leaf.dynamic else size for dim, size in enumerate(value.shape)]
    return value.new_empty(shape)


@contextmanager
def _quiet() -> Generator[None]:
    """Keeps what torch logs in this thread, about an error that is reported in one line anyway, from the handlers of its loggers."""
    unheard = _Unheard()
    handlers = _handlers()
    for handler in handlers:
        handler.addFilter(unheard)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(unheard)


class _Unheard(logging.Filter):
    """Drops what torch's loggers say in the thread that made it, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is heard."""
        return record.thread != self.thread or not record.name.startswith(_LOGGERS)


def _handlers() -> list[logging.Handler]:
    """All handlers that get what torch's loggers say."""
    out: dict[logging.Handler, None] = {} if logging.lastResort is None else {logging.lastResort: None}
    for name in _LOGGERS:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            out.update(dict.fromkeys(logger.handlers))
            logger = logger.parent if logger.propagate else None
    return list(out)


class _Enveloped(Exception):
    """
    Around an error about what depends on data, which it has as its cause. To such an error itself, where it knows it, torch adds the graph
    so far, and prints that.
    """


def _definition(function: Any) -> str:
    """Where a function, or a module's forward, begins; of one that is not the user's, the line that compiles it."""
    target = inspect.unwrap(type(function).forward if isinstance(function, torch.nn.Module) else function)
    code = getattr(target, "__code__", None)
    if code is not None and is_user_file(code.co_filename):
        return f"{code.co_filename}:{code.co_firstlineno}"
    return _user_line(inspect.currentframe())


def _located(error: Exception, tensors: Sequence[str], place: str, owner: torch.nn.Module | None) -> CleaveError:
    """
    An error of tracing in one line, at the innermost line of the user's code, else at `place`.

    A module of PyTorch's own that fails is named by its path in `owner`.
    """
    module = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_user_file(frame.f_code.co_filename):
            place, module = f"{frame.f_code.co_filename}:{line}", ""
        own = frame.f_locals.get("self")
        if frame.f_code.co_name == "forward" and isinstance(own, torch.nn.Module) and type(own).__module__.startswith("torch."):
            named: Mapping[str, torch.nn.Module] = dict(cast(Any, owner or own).named_modules())
            path = next((name for name, other in named.items() if other is own), "")
            module = f" (in {_described(path, type(own).__name__)})"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = lines[0] if lines else type(error).__name__
    if _DATA_DEPENDENT in found:
        found = "data-dependent: a branch or a size is decided by the values of a tensor"
        advice = "choose by torch.where, or decide outside of the compiled function"
        return CleaveError(place or None, found + module, advice, op="torch.export")
    violated = next((line.lstrip("- ") for line in lines if line.startswith("- ") and "size()" in line), "")
    if violated:
        found = violated.partition(". If you")[0]
    found = _ARGUMENT.sub(lambda match: f"dimension {match[2]} of '{tensors[int(match[1])]}'", found)
    found += " query" if found.endswith("must divide the number of heads in") else ""
    advice = "do not declare it dynamic" if violated else "only operators on tensors, with shapes known from the arguments, can be compiled"
    return CleaveError(place or None, f"{type(error).__name__}: {found}{module}", advice, op="torch.export")
