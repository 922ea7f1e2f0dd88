"""Operations of the `alg` dialect that remove axes (reductions, contractions) or change them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import Literal, literal_attr, literal_of, names_attr, names_of
from cleave.dialects.alg.base import AlgOp, AxisScope, check_literal, need_float, need_integers, need_number
from cleave.dialects.alg.types import ExtentAttr, Reduction, ReductionAttr, TensorType
from cleave.dialects.simplifies import Simplifies
from cleave.extents import Extent, extent
from cleave.graph import FLOATS, Attr


@irdl_op_definition
class ReduceOp(AlgOp):
    """
    A reduction, `alg.reduce sum %x over [n]`, with sum, max or min: the axes are removed.

    Over nothing a sum is 0, a max -inf and a min +inf. Elements of a split that do not exist are skipped.
    """

    name = "alg.reduce"
    reduction = prop_def(ReductionAttr)
    axes = prop_def(ArrayAttr[StringAttr])
    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = (
        "$reduction custom<Operand>($arg, type($arg)) `over` custom<AxisNames>($axes) attr-dict `:` custom<Result>(type($out))"
    )

    def attr(self) -> tuple[Attr, ...]:
        return (self.reduction.data.value, names_of(self.axes))

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"reduction": ReductionAttr(Reduction(str(attr[0]))), "axes": names_attr(cast("tuple[str, ...]", attr[1]))}

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        need_number("the result", out)
        need_integers("the result", args, out)


@irdl_op_definition
class ContractOp(AlgOp):
    """
    The sum over axes of a product of any number of tensors, `alg.contract %q, %k over [d]`.

    Shapes: out has the axes of all operands but those removed. A matrix product, batched or not, is one of these. The element
    types of the operands say what a dot unit may read; the sum is at least f32. Integers are multiplied and added in the type of
    the result.
    """

    name = "alg.contract"
    axes = prop_def(ArrayAttr[StringAttr])
    args = var_operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = "custom<Operands>($args, type($args)) `over` custom<AxisNames>($axes) attr-dict `:` custom<Result>(type($out))"

    def attr(self) -> tuple[Attr, ...]:
        return (names_of(self.axes),)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"axes": names_attr(cast("tuple[str, ...]", attr[0]))}

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        if not args:
            raise VerifyException("there is no operand; give at least one")
        need_number("the result", out)
        need_integers("the result", args, out)


@irdl_op_definition
class ShiftOp(AlgOp):
    """
    The free shift of an exponential, `alg.shift %x over [n]`: a tensor that results must not depend on.

    Its reference value is the maximum over the axes, 0 where that is -inf. A schedule may use any other, a running maximum for one.
    """

    name = "alg.shift"
    axes = prop_def(ArrayAttr[StringAttr])
    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "custom<Operand>($arg, type($arg)) `over` custom<AxisNames>($axes) attr-dict `:` custom<Result>(type($out))"

    def attr(self) -> tuple[Attr, ...]:
        return (names_of(self.axes),)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"axes": names_attr(cast("tuple[str, ...]", attr[0]))}

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        need_float("the result", out)


def _same_size(what: str, parts: Sequence[Extent], wanted: Extent, operator: str = "") -> None:
    """Raises VerifyException where all extents are integers and the parts, multiplied or added, are not what is wanted."""
    known = [part.constant for part in parts if part.constant is not None]
    if wanted.constant is None or len(known) < len(parts):
        return
    if (sum(known) if operator == "+" else prod(known)) != wanted.constant:
        written = f" {operator} ".join(map(str, known))
        raise VerifyException(f"{what} has {written} elements but the new axis {wanted.constant}; change one of the extents")


@irdl_op_definition
class RenameOp(AlgOp):
    """The same tensor with other axis names, `alg.rename %x [m -> n, d -> e]`: the extents must be equal."""

    name = "alg.rename"
    pairs = prop_def(ArrayAttr[ArrayAttr[StringAttr]])
    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = "custom<Operand>($arg, type($arg)) custom<AxisPairs>($pairs) attr-dict `:` custom<Result>(type($out))"

    def attr(self) -> tuple[Attr, ...]:
        return (tuple(names_of(pair) for pair in self.pairs),)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"pairs": ArrayAttr([names_attr(pair) for pair in cast("tuple[tuple[str, ...], ...]", attr[0])])}

    def verify_(self) -> None:
        for pair in self.pairs:
            if len(pair) != 2:
                raise VerifyException(f"[{', '.join(names_of(pair))}] is not a pair of an old and a new name")
        super().verify_()

    def verify_extents(self, scope: AxisScope) -> None:
        for old, new in (names_of(pair) for pair in self.pairs):
            _same_size(f"axis '{old}'", [scope.axis(old).extent], scope.axis(new).extent)


@irdl_op_definition
class SplitOp(AlgOp):
    """
    One axis as two, `alg.split %x n into [s, ni]`: element (o, i) is element o * |ni| + i.

    Where the chunks reach past the end, `ni` must be declared as `chunk of n by s`; what lies beyond does not exist.
    """

    name = "alg.split"
    axis = prop_def(StringAttr)
    outer = prop_def(StringAttr)
    inner = prop_def(StringAttr)
    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = (
        "custom<Operand>($arg, type($arg)) custom<AxisName>($axis) `into` ` ` "
        "`[` custom<AxisName>($outer) `,` custom<AxisName>($inner) `]` attr-dict `:` custom<Result>(type($out))"
    )

    def attr(self) -> tuple[Attr, ...]:
        return (self.axis.data, self.outer.data, self.inner.data)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {name: StringAttr(str(axis)) for name, axis in zip(("axis", "outer", "inner"), attr, strict=True)}

    def verify_extents(self, scope: AxisScope) -> None:
        _verify_chunks(scope, self.axis.data, self.outer.data, self.inner.data)


def _verify_chunks(scope: AxisScope, whole: str, outer: str, inner: str) -> None:
    if outer == inner:
        raise VerifyException(f"axis '{outer}' is listed twice; the two parts need two names")
    if scope.axis(inner).chunk_of != (whole, outer):
        parts = [scope.axis(outer).extent, scope.axis(inner).extent]
        _same_size(f"[{outer}, {inner}]", parts, scope.axis(whole).extent, "*")


@irdl_op_definition
class MergeOp(AlgOp):
    """Two axes as one, `alg.merge %x [s, ni] into n`: the inverse of `alg.split`; what does not exist is left out."""

    name = "alg.merge"
    outer = prop_def(StringAttr)
    inner = prop_def(StringAttr)
    axis = prop_def(StringAttr)
    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = (
        "custom<Operand>($arg, type($arg)) ` ` `[` custom<AxisName>($outer) `,` custom<AxisName>($inner) `]` "
        "`into` custom<AxisName>($axis) attr-dict `:` custom<Result>(type($out))"
    )

    def attr(self) -> tuple[Attr, ...]:
        return ((self.outer.data, self.inner.data), self.axis.data)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        outer, inner = cast("tuple[str, str]", attr[0])
        return {"outer": StringAttr(outer), "inner": StringAttr(inner), "axis": StringAttr(str(attr[1]))}

    def verify_extents(self, scope: AxisScope) -> None:
        _verify_chunks(scope, self.axis.data, self.outer.data, self.inner.data)


@irdl_op_definition
class SliceOp(AlgOp):
    """Part of an axis, `alg.slice %x d into h from 1 step 2`: `out[h] = arg[1 + 2 * h]`, as far as the extent of h goes."""

    name = "alg.slice"
    axis = prop_def(StringAttr)
    new_axis = prop_def(StringAttr)
    start = prop_def(ExtentAttr)
    step = prop_def(IntegerAttr)
    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = (
        "custom<Operand>($arg, type($arg)) custom<AxisName>($axis) `into` custom<AxisName>($new_axis) `from` custom<Bound>($start) "
        "`step` custom<Step>($step) attr-dict `:` custom<Result>(type($out))"
    )

    def attr(self) -> tuple[Attr, ...]:
        return (self.axis.data, self.new_axis.data, self.start.data, self.step.value.data)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        axis, new, start, step = attr
        return {
            "axis": StringAttr(str(axis)),
            "new_axis": StringAttr(str(new)),
            "start": ExtentAttr(extent(cast("int | Extent", start))),
            "step": IntegerAttr(int(str(step)), i64),
        }

    def verify_extents(self, scope: AxisScope) -> None:
        start, count, size = (
            value.constant for value in (self.start.data, scope.axis(self.new_axis.data).extent, scope.axis(self.axis.data).extent)
        )
        scope.verify_symbols(self.start.data)
        if start is None or count is None or size is None or count == 0:
            return
        last = start + self.step.value.data * (count - 1)
        if not (start < size and 0 <= last < size):
            raise VerifyException(
                f"elements {start} to {last} are not all in axis '{self.axis.data}', which has {size}; change start, step or an extent"
            )


@irdl_op_definition
class IndexOp(AlgOp):
    """One element of an axis, which is removed: `alg.index %x n at 0`."""

    name = "alg.index"
    axis = prop_def(StringAttr)
    position = prop_def(ExtentAttr)
    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "custom<Operand>($arg, type($arg)) custom<AxisName>($axis) `at` custom<Bound>($position) attr-dict `:` custom<Result>(type($out))"
    )

    def attr(self) -> tuple[Attr, ...]:
        return (self.axis.data, self.position.data)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"axis": StringAttr(str(attr[0])), "position": ExtentAttr(extent(cast("int | Extent", attr[1])))}

    def verify_extents(self, scope: AxisScope) -> None:
        scope.verify_symbols(self.position.data)
        position, size = self.position.data.constant, scope.axis(self.axis.data).extent.constant
        if position is not None and size is not None and position >= size:
            raise VerifyException(f"element {position} is not in axis '{self.axis.data}', which has {size}; change the position")


@irdl_op_definition
class ConcatOp(AlgOp):
    """
    Tensors one after the other, `alg.concat %a, %b along [n1, n2] into n`.

    Each operand names its own axis to join; out has their extents' sum. Over the other axes operands broadcast.
    """

    name = "alg.concat"
    axes = prop_def(ArrayAttr[StringAttr])
    new_axis = prop_def(StringAttr)
    args = var_operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "custom<Operands>($args, type($args)) `along` custom<AxisNames>($axes) `into` custom<AxisName>($new_axis) attr-dict `:` "
        "custom<Result>(type($out))"
    )

    def attr(self) -> tuple[Attr, ...]:
        return (names_of(self.axes), self.new_axis.data)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"axes": names_attr(cast("tuple[str, ...]", attr[0])), "new_axis": StringAttr(str(attr[1]))}

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        if not args:
            raise VerifyException("there is no operand; give at least one")
        for dtype in args:
            super().verify_dtypes([dtype], out)

    def verify_extents(self, scope: AxisScope) -> None:
        parts = [scope.axis(axis).extent for axis in names_of(self.axes)]
        _same_size("what is joined", parts, scope.axis(self.new_axis.data).extent, "+")


@irdl_op_definition
class PadOp(AlgOp):
    """
    A longer axis, `alg.pad %x n into p low 2 value 0.0`: `out[p] = arg[p - 2]` where that exists, else the value.

    The extent of p says how much is added at the end.
    """

    name = "alg.pad"
    axis = prop_def(StringAttr)
    new_axis = prop_def(StringAttr)
    low = prop_def(ExtentAttr)
    value = prop_def()
    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "custom<Operand>($arg, type($arg)) custom<AxisName>($axis) `into` custom<AxisName>($new_axis) `low` custom<Bound>($low) "
        "`value` custom<TypedNumber>($value, type($out)) attr-dict"
    )

    def attr(self) -> tuple[Attr, ...]:
        return (self.axis.data, self.new_axis.data, self.low.data, literal_of(self.value))

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        axis, new, low, value = attr
        return {
            "axis": StringAttr(str(axis)),
            "new_axis": StringAttr(str(new)),
            "low": ExtentAttr(extent(cast("int | Extent", low))),
            "value": literal_attr(cast(Literal, value)),
        }

    def verify_(self) -> None:
        check_literal("the value", self.value, self.out_type.dtype)
        super().verify_()

    def verify_extents(self, scope: AxisScope) -> None:
        scope.verify_symbols(self.low.data)
        low, size, new = (
            value.constant for value in (self.low.data, scope.axis(self.axis.data).extent, scope.axis(self.new_axis.data).extent)
        )
        if low is not None and size is not None and new is not None and low + size > new:
            raise VerifyException(f"{size} elements after {low} do not fit axis '{self.new_axis.data}' of {new}; change low or an extent")


@irdl_op_definition
class GatherOp(AlgOp):
    """
    Elements of a table chosen by an integer tensor, `alg.gather %table, %pages along p`: `out[.., i] = table[.., indices[i]]`.

    Shapes: out has the axes of the table but `p`, and those of the indices; the two sets are disjoint.
    """

    name = "alg.gather"
    axis = prop_def(StringAttr)
    table = operand_def(TensorType)
    indices = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "custom<Operand>($table, type($table)) `,` custom<Operand>($indices, type($indices)) `along` custom<AxisName>($axis) "
        "attr-dict `:` custom<Result>(type($out))"
    )

    def attr(self) -> tuple[Attr, ...]:
        return (self.axis.data,)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"axis": StringAttr(str(attr[0]))}

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        if args[1] in FLOATS or args[1] == "i1":
            raise VerifyException(f"the indices have element type {args[1]}; they must be i32, i64 or index")
        super().verify_dtypes(args, out)
