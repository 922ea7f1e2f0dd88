"""What all operations of the `alg` dialect share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import AxisName, AxisNames, AxisPairs, Operand, Operands, fits, literal_of, literal_text
from cleave.dialects.alg.types import Bound, Result, Step, TensorType, TypedNumber
from cleave.extents import NAME, Extent
from cleave.graph import FLOATS, Attr, Axis, result_axes


class AxisScope(IRDLOperation, ABC):
    """An operation that declares axes for what is inside it."""

    @abstractmethod
    def declared(self) -> tuple[Axis, ...]:
        """The axes, in order."""

    @abstractmethod
    def verify_symbols(self, value: Extent) -> None:
        """Raises VerifyException for an extent over symbols that are not declared."""

    def axis(self, name: str) -> Axis:
        """The declared axis of that name. Raises: VerifyException."""
        for axis in self.declared():
            if axis.name == name:
                return axis
        raise VerifyException(f"axis '{name}' is not declared by the graph; add it to the axes")


class AlgOp(IRDLOperation, ABC):
    """
    An operation of the algebra: operands are tensors, and operands and attributes determine the axes of its result.

    `kind` and `attr` are those of `cleave.graph.Op`.
    """

    custom_directives = (Operand, Operands, AxisName, AxisNames, AxisPairs, Result, Bound, Step, TypedNumber)

    @property
    def kind(self) -> str:
        """The name without the dialect."""
        return self.name.removeprefix("alg.")

    @property
    def out_type(self) -> TensorType:
        """The type of the result."""
        return cast(TensorType, self.results[0].type)

    @property
    def arg_types(self) -> tuple[TensorType, ...]:
        """The types of the operands."""
        return tuple(cast(TensorType, operand.type) for operand in self.operands)

    def attr(self) -> tuple[Attr, ...]:
        """The attributes as plain values."""
        return ()

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        """The properties for attributes given as plain values; the inverse of `attr`."""
        return {}

    def verify_(self) -> None:
        scope = enclosing_scope(self)
        if scope is None:
            present = (axis for found in (*self.arg_types, self.out_type) for axis in found.axes)
            order = tuple(dict.fromkeys((*present, *(name for name in _strings(self.attr()) if NAME.match(name)))))
        else:
            order = tuple(axis.name for axis in scope.declared())
        try:
            wanted = result_axes(order, self.kind, [frozenset(found.axes) for found in self.arg_types], self.attr())
        except ValueError as error:
            raise VerifyException(f"{error}; rename it or change the list") from error
        if set(wanted) != set(self.out_type.axes):
            raise VerifyException(
                f"the result has axes [{', '.join(self.out_type.axes)}] but operands and attributes give [{', '.join(wanted)}]; "
                "write those in the result type"
            )
        self.verify_dtypes([found.dtype for found in self.arg_types], self.out_type.dtype)
        if scope is not None:
            self.verify_extents(scope)

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        """Raises VerifyException where element types do not fit together."""
        if out != args[0]:
            raise VerifyException(f"the result has element type {out} but the operand {args[0]}; insert an alg.cast")

    def verify_extents(self, scope: AxisScope) -> None:
        """Raises VerifyException where extents known as integers do not fit together."""


def _strings(attr: Attr) -> Iterable[str]:
    if isinstance(attr, str):
        yield attr
    elif isinstance(attr, tuple):
        for part in attr:
            yield from _strings(part)


def enclosing_scope(op: Operation) -> AxisScope | None:
    """The `alg.graph` around an operation, if there is one."""
    at = op.parent_op()
    while at is not None and not isinstance(at, AxisScope):
        at = at.parent_op()
    return at


def need_number(what: str, dtype: str) -> None:
    """Raises VerifyException for i1."""
    if dtype == "i1":
        raise VerifyException(f"{what} has element type i1, which is no number; insert an alg.cast")


def need_float(what: str, dtype: str) -> None:
    """Raises VerifyException for what is no float."""
    if dtype not in FLOATS:
        raise VerifyException(f"{what} has element type {dtype} but a float is needed; insert an alg.cast")


def check_literal(what: str, value: Attribute, dtype: str) -> None:
    """Raises VerifyException for an attribute that is no number, or none of that element type. Floats are kept in double precision."""
    try:
        literal = literal_of(value)
    except ValueError as error:
        raise VerifyException(f"{error}; give a float, an integer or a boolean") from error
    if literal != literal:
        raise VerifyException(f"{what} is NaN; a program may only compute one")
    if isinstance(literal, bool) != (dtype == "i1") or (isinstance(literal, float) and dtype not in FLOATS):
        raise VerifyException(f"{what} {literal_text(literal)} is no {dtype}; change the literal or the type")
    if dtype not in FLOATS and not fits(int(literal), dtype):
        raise VerifyException(f"{what} {literal_text(literal)} does not fit {dtype}; change the literal or the type")


def need_integers(what: str, args: Sequence[str], out: str) -> None:
    """Raises VerifyException where floats would become integers without a cast."""
    for dtype in args:
        if out not in FLOATS and dtype in FLOATS:
            raise VerifyException(f"{what} has element type {out} but an operand {dtype}; insert an alg.cast")
