"""
Tracing a function or module with torch.export: the graph of operators, its tensors, symbols and the user's lines.

The call is flattened here: tensors become the traced arguments, everything else is fixed. Dynamic dimensions are traced as
`Dim.DYNAMIC` and compared with what the program needs afterwards, so that a guard of tracing (a size other than 1) never
becomes a restriction. An example size of 0 or 1 would be taken for a broadcast; such tensors are replaced by larger ones.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.fx.traceback as fx_traceback
from torch.fx.experimental import _config as fx_config
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..errors import CleaveError
from .aliasing import argument_names, is_mutation, refuse_input_mutation
from .dynamic_shapes import declarations, dynamic_dims, for_export, part_of
from .naming import identifier, unique
from .parameters import parameters_of
from .quiet import quiet
from .regions import inline_regions
from .trace_errors import DATA_DEPENDENT, Enveloped, located
from .traced import PLACE, Leaf, Traced
from .user_code import definition, user_line

_DEVICES = ("cpu", "cuda")
_config: Any = fx_config


def trace(function: Any, example_inputs: Sequence[Any], dynamic_shapes: Any) -> Traced:
    """
    Traces a call. Raises: CleaveError, with the user's line, for whatever torch.export refuses and for declarations that do not fit.
    """
    if not callable(function):
        found = f"there is nothing to compile in {function!r:.40}, of type {type(function).__name__}"
        raise CleaveError(user_line(inspect.currentframe()) or None, found, "give a function or a module")
    if isinstance(function, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        found = f"{function.original_name if isinstance(function, torch.jit.ScriptModule) else function.name} is a script of torch.jit"
        raise CleaveError(user_line(inspect.currentframe()) or None, found, "give the module or function that it was made from")
    args = tuple(example_inputs)
    parameters = parameters_of(function, len(args))
    leaves, in_spec = _flatten(args, parameters.names, dynamic_shapes)
    tensors = tuple(at for at, leaf in enumerate(leaves) if isinstance(leaf.value, torch.Tensor))
    place = definition(function)
    for leaf in (leaves[at] for at in tensors):
        if leaf.value.layout != torch.strided or leaf.value.device.type not in _DEVICES:
            kind = str(leaf.value.layout).removeprefix("torch.")
            raise CleaveError(place, f"argument '{leaf.name}' is {kind} on {leaf.value.device.type}", "pass a dense tensor on cpu or cuda")
    structure = _Structure()
    call = _Call(function, leaves, in_spec, structure, place)
    shapes = tuple(for_export(leaves[at].dynamic) or None for at in tensors)
    # A tensor given twice would be traced as one argument, so each gets an object of its own.
    examples = tuple(_roomy(leaves[at]).detach() for at in tensors)
    # Choosing an order for the products of an einsum looks at sizes, and would fix those that are dynamic.
    unordered = cast(Any, torch.backends.opt_einsum).flags(enabled=False)
    with quiet(), _config.patch(backed_size_oblivious=True), torch.no_grad(), unordered:
        try:
            program = torch.export.export(call, examples, dynamic_shapes=(shapes,) if tensors else None, strict=False)
            inline_regions(program, place)
            if any(is_mutation(node) for node in program.graph.nodes):
                refuse_input_mutation(program, argument_names(program, [leaves[at].name for at in tensors]))
                program = _functional(program)
        except CleaveError:
            raise
        except Exception as error:
            cause = error.__cause__ if isinstance(error, Enveloped) and isinstance(error.__cause__, Exception) else error
            raise located(cause, [leaves[at].name for at in tensors], place, call.owner) from cause
    name = identifier(getattr(function, "__name__", type(function).__name__), "graph")
    return Traced(program, name, place, tuple(leaves), tensors, parameters, in_spec, structure.spec, tuple(structure.outputs))


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
        with fx_traceback.annotate({PLACE: user_line(inspect.currentframe())}):
            return func(*args, **(kwargs or {}))


@dataclass
class _Structure:
    """The structure of a result: how to put it together, and where each flat result is."""

    spec: Any = None
    outputs: list[int | tuple[Any]] = field(default_factory=list["int | tuple[Any]"])


class _Call(torch.nn.Module):
    """The function as a module over its tensor arguments. Calling it describes its result in `structure`."""

    def __init__(self, function: Any, leaves: Sequence[Leaf], spec: Any, structure: _Structure, place: str) -> None:
        super().__init__()
        owner = getattr(function, "__self__", None)
        self.owner = function if isinstance(function, torch.nn.Module) else owner if isinstance(owner, torch.nn.Module) else None

        # Held by a closure: torch.export puts attributes of modules back to what they were before the call.
        def call(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
            given = iter(tensors)
            flat = [next(given) if isinstance(leaf.value, torch.Tensor) else leaf.value for leaf in leaves]
            return _flat_results(function(*pytree.tree_unflatten(flat, spec)), structure, place)

        self.call: Callable[[Sequence[torch.Tensor]], tuple[torch.Tensor, ...]] = call

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Calls the function with the tensors put among the fixed arguments."""
        try:
            with _Places(), fx_traceback.preserve_node_meta():
                return self.call(tensors)
        except RuntimeError as error:
            if DATA_DEPENDENT in str(error):
                raise Enveloped from error
            raise


def _flat_results(result: Any, structure: _Structure, place: str) -> tuple[torch.Tensor, ...]:
    results, structure.spec = pytree.tree_flatten(result)
    structure.outputs.clear()
    out: list[torch.Tensor] = []
    for one in results:
        if isinstance(one, torch.Tensor):
            structure.outputs.append(len(out))
            out.append(one)
        elif one is None or isinstance(one, bool | int | float | str | torch.dtype):
            structure.outputs.append((one,))
        elif isinstance(one, torch.SymInt | torch.SymFloat | torch.SymBool):
            found = "returns a dynamic size, or what is computed of some, as a number"
            raise CleaveError(place or None, found, "take it outside, from the tensors themselves")
        else:
            advice = "return tensors, numbers, strings and None, in lists, tuples and dictionaries"
            raise CleaveError(place or None, f"a result of type {type(one).__name__} is not supported", advice)
    return tuple(out)


def _flatten(args: tuple[Any, ...], parameters: Sequence[str], dynamic_shapes: Any) -> tuple[list[Leaf], Any]:
    paths, spec = pytree.tree_flatten_with_path(args)
    declared = declarations(parameters, dynamic_shapes)
    leaves: list[Leaf] = []
    for path, value in paths:
        keys = [getattr(key, "idx", getattr(key, "key", getattr(key, "name", None))) for key in path]
        base = identifier("_".join([parameters[int(str(keys[0]))], *map(str, keys[1:])]), "arg")
        name = unique(base, [leaf.name for leaf in leaves])
        found = declared[int(str(keys[0]))]
        for key in keys[1:]:
            found = None if found is None else part_of(found, key, name)
        leaves.append(Leaf(name, value, dynamic_dims(found, value, name)))
    return leaves, spec


def _roomy(leaf: Leaf) -> torch.Tensor:
    """The example tensor, its dynamic dimensions at least 2 long."""
    value: torch.Tensor = leaf.value
    if not any(value.shape[dim] < 2 for dim in leaf.dynamic):
        return value
    shape = [{0: 6, 1: 7}.get(size, size) if dim in leaf.dynamic else size for dim, size in enumerate(value.shape)]
    return value.new_empty(shape)
