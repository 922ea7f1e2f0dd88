"""
How a call's tensors meet a graph: what each graph input views, what the symbols are, what each result is.

All sizes are extents over the graph's symbols. Strides and offsets are taken from the tensors of the call, so callers may
pass views that are not contiguous.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import torch
from torch.utils import _pytree as pytree

from ..errors import CleaveError
from ..extents import Extent
from .parameters import Parameters, ordered_like, shown


class _Value:
    """Stands for a tensor or a fixed value where a structure is shown."""

    def __repr__(self) -> str:
        return "one value"


_VALUE = _Value()


@dataclass(frozen=True)
class Source:
    """
    Where a tensor comes from: the flat arguments of the call (by position), the module's parameters and buffers (by name), or
    the constants of the function (by name).
    """

    kind: Literal["argument", "state", "constant"]
    key: int | str


@dataclass(frozen=True)
class ViewDim:
    """A dimension of a view: its size, the tensor dimension it walks along, the first position taken and the step."""

    size: Extent
    dim: int
    first: Extent
    step: Extent


@dataclass(frozen=True)
class InputBinding:
    """A graph input: the tensor and the view of it, one dimension for each of the input's layout."""

    name: str
    source: Source
    dims: tuple[ViewDim, ...]

    def view(self, tensor: torch.Tensor, symbols: Mapping[str, int]) -> torch.Tensor:
        """
        The view of a tensor; of one that is negated when read, of a copy with the values as they are.

        Shapes: the dimensions of the graph input's layout.
        """
        tensor = tensor.resolve_neg()
        size = [dim.size.evaluate(symbols) for dim in self.dims]
        stride = [tensor.stride(dim.dim) * dim.step.evaluate(symbols) for dim in self.dims]
        offset = sum(tensor.stride(dim.dim) * dim.first.evaluate(symbols) for dim in self.dims)
        return tensor.as_strided(size, stride, tensor.storage_offset() + offset)


@dataclass(frozen=True)
class ArgumentCheck:
    """What a tensor of the call must be: its name, where it comes from, its dtype, and its size in every dimension."""

    name: str
    source: Source
    dtype: torch.dtype
    shape: tuple[Extent, ...]

    def applied(self, tensor: Any, symbols: Mapping[str, int] | None, origins: Mapping[str, str] | None = None) -> None:
        """
        Raises: CleaveError where a value is no such tensor. Without values of symbols, sizes that have any are not looked at; `origins`
        says where the values are from.
        """
        if not isinstance(tensor, torch.Tensor):
            raise CleaveError(None, f"argument '{self.name}' is {shown(tensor)}, compiled for a tensor", "compile again for other values")
        if tensor.dtype != self.dtype:
            raise CleaveError(None, f"argument '{self.name}' is {tensor.dtype}, compiled for {self.dtype}", "compile again or convert it")
        if tensor.dim() != len(self.shape):
            raise CleaveError(
                None, f"argument '{self.name}' has {tensor.dim()} dimension{'s' * (tensor.dim() != 1)}, compiled for {len(self.shape)}"
            )
        for at, size in enumerate(self.shape):
            if (symbols is not None or not size.symbols) and tensor.shape[at] != size.evaluate(symbols or {}):
                text = f"dimension {at} of argument '{self.name}' has size {tensor.shape[at]}, compiled for {size}"
                given = [f"{name} is {(symbols or {})[name]} by {(origins or {})[name]}" for name in size.symbols]
                raise CleaveError(None, text, " and ".join(given) or "declare it dynamic, or compile again")


@dataclass(frozen=True)
class SymbolRead:
    """A symbol's value: the size of a dimension of an argument, of which it is a known multiple plus a known rest."""

    name: str
    argument: int
    dim: int
    factor: int = 1
    rest: int = 0


Relation: TypeAlias = Literal["<", "<=", ">", ">=", "==", "!="]


@dataclass(frozen=True)
class Condition:
    """Something the traced program assumed of its symbols, by a branch of the user's where it has a `place`."""

    left: Extent
    relation: Relation
    right: Extent
    place: str = ""

    def holds(self, symbols: Mapping[str, int]) -> bool:
        """Whether it is so."""
        return _RELATIONS[self.relation](self.left.evaluate(symbols), self.right.evaluate(symbols))


_RELATIONS: Mapping[Relation, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class OutputBinding:
    """
    A result of the call.

    `graph` is the position among the graph's results, with the shape and dtype to allocate; for kind `argument`, the flat
    argument that is returned as it is; for kind `fixed`, a value.
    """

    kind: Literal["graph", "argument", "fixed"]
    graph: int = -1
    shape: tuple[Extent, ...] = ()
    dtype: torch.dtype = torch.float32
    value: Any = None

    def sizes(self, symbols: Mapping[str, int]) -> tuple[int, ...]:
        """The shape to allocate."""
        return tuple(size.evaluate(symbols) for size in self.shape)


@dataclass(frozen=True)
class Bindings:
    """How a call's tensors meet a graph. `device` is that of the example tensors; `weights` are those the caller named."""

    inputs: tuple[InputBinding, ...]
    outputs: tuple[OutputBinding, ...]
    arguments: tuple[ArgumentCheck, ...]
    symbols: tuple[SymbolRead, ...]
    conditions: tuple[Condition, ...]
    fixed: tuple[tuple[int, str, Any], ...]
    parameters: Parameters
    in_spec: Any
    out_spec: Any
    state: Mapping[str, torch.Tensor]
    constants: Mapping[str, torch.Tensor]
    device: torch.device
    weights: tuple[Source, ...] = ()

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Any]:
        """
        The flat arguments of a call. Raises: CleaveError where its structure or a fixed argument differs from the example's.
        """
        given = self.parameters.arranged(args, kwargs or {})
        flat, spec = pytree.tree_flatten(tuple(given))
        if spec != self.in_spec:
            wanted: Sequence[Any] = self._structure(self.in_spec)
            flat, spec = pytree.tree_flatten(ordered_like(tuple(given), wanted))
        if spec != self.in_spec:
            for name, one, other in zip(self.parameters.names, self._structure(spec), self._structure(self.in_spec), strict=True):
                if one != other:
                    raise CleaveError(None, f"argument '{name}' is {one}, compiled for {other}", "give it the structure of the example")
            raise CleaveError(None, "the arguments have another structure than the example's", "give them as when compiling")
        for position, name, value in self.fixed:
            if type(flat[position]) is not type(value) or flat[position] != value:
                found = f"argument '{name}' is {shown(flat[position])}, compiled for {shown(value)}"
                raise CleaveError(None, found, "compile again for other values")
        return flat

    @staticmethod
    def _structure(spec: Any) -> Any:
        """The arguments of a structure without its tensors and values."""
        return pytree.tree_unflatten([_VALUE] * spec.num_leaves, spec)

    def tensor(self, source: Source, flat: Sequence[Any] | Mapping[int, Any]) -> torch.Tensor:
        """The tensor of a source in a call."""
        if source.kind == "argument":
            return flat[int(source.key)]
        return (self.state if source.kind == "state" else self.constants)[str(source.key)]

    def sizes(self, flat: Sequence[Any]) -> dict[str, int]:
        """
        The values of the symbols in a call.

        Raises: CleaveError for a tensor whose dtype or size is not what the program was traced for.
        """
        out: dict[str, int] = {}
        for read in self.symbols:
            tensor = flat[read.argument]
            if isinstance(tensor, torch.Tensor) and read.dim < tensor.dim():
                out.setdefault(read.name, (tensor.shape[read.dim] - read.rest) // read.factor)
        for check in self.arguments:
            check.applied(self.tensor(check.source, flat), out, self.origins)
        for condition in self.conditions:
            if not condition.holds(out):
                text = f"the program was traced for {condition.left} {condition.relation} {condition.right}, which does not hold"
                raise CleaveError(condition.place or None, text, "compile again for these sizes")
        return out

    @cached_property
    def origins(self) -> dict[str, str]:
        """Where the value of each symbol is read, for people."""
        names = {check.source: check.name for check in self.arguments}
        return {read.name: f"dimension {read.dim} of '{names[Source('argument', read.argument)]}'" for read in self.symbols}

    def check_weights(self, flat: Mapping[int, Any]) -> None:
        """Looks at the weights of a call, by position. Raises: CleaveError as `sizes`; sizes that are symbols are whatever they are."""
        for check in self.arguments:
            if check.source in self.weights:
                check.applied(flat[int(check.source.key)] if check.source.kind == "argument" else self.state[str(check.source.key)], None)

    def views(self, flat: Sequence[Any], symbols: Mapping[str, int]) -> list[torch.Tensor]:
        """A view for each graph input. Shapes: the dimensions of its layout."""
        return [entry.view(self.tensor(entry.source, flat), symbols) for entry in self.inputs]

    def check_example(self, flat: Sequence[Any]) -> None:
        """Raises: CleaveError where the example is not as the traced program assumed: sizes of 0 and 1 are traced as longer ones."""
        symbols = {read.name: (flat[read.argument].shape[read.dim] - read.rest) // read.factor for read in self.symbols}
        for condition in self.conditions:
            if {*condition.left.symbols, *condition.right.symbols} <= set(symbols) and not condition.holds(symbols):
                sizes = ", ".join(
                    f"{name} = {symbols[name]}"
                    for name in {**dict.fromkeys(condition.left.symbols), **dict.fromkeys(condition.right.symbols)}
                )
                text = f"needs {condition.left} {condition.relation} {condition.right}, and the example has {sizes}"
                raise CleaveError(
                    condition.place or None, text, "give an example for which it holds, or do not declare the dimension dynamic"
                )

    def check_hint(self, hint: Mapping[str, int]) -> None:
        """Looks at values of some symbols. Raises: CleaveError where no call has them, by what was assumed of these alone."""
        for condition in self.conditions:
            if {*condition.left.symbols, *condition.right.symbols} <= set(hint) and not condition.holds(hint):
                where = ", ".join(f"{name} = {value}" for name, value in hint.items())
                text = f"no call has {where}: the program was traced for {condition.left} {condition.relation} {condition.right}"
                raise CleaveError(None, text, "give hints of sizes that calls have")

    def able(self, symbols: Mapping[str, int]) -> bool:
        """Whether calls may have these values of all symbols, by what the traced program assumed."""
        return all(condition.holds(symbols) for condition in self.conditions)

    def results(self, flat: Sequence[Any], made: Sequence[torch.Tensor]) -> Any:
        """The call's result from the tensors of the graph's results, each of the shape of its `OutputBinding`."""
        out: list[Any] = []
        for entry in self.outputs:
            if entry.kind == "graph":
                out.append(made[entry.graph])
            else:
                out.append(flat[entry.graph] if entry.kind == "argument" else entry.value)
        return pytree.tree_unflatten(out, self.out_spec)
