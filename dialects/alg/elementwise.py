"""Operations of the `alg` dialect without operands, and the elementwise ones: they broadcast by name."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import Literal, literal_attr, literal_of
from cleave.dialects.alg.base import AlgOp, AxisScope, check_literal, need_float, need_integers, need_number
from cleave.dialects.alg.types import Predicate, PredicateAttr, TensorType
from cleave.dialects.simplifies import Simplifies
from cleave.graph import FLOATS, Attr


@irdl_op_definition
class ConstantOp(AlgOp):
    """
    A number, `alg.constant 0.5 : f32`.

    Floats are kept as written in double precision; `-inf`, `inf` and bit patterns (`0xFF800000 : f32`) are read too.
    """

    name = "alg.constant"
    value = prop_def()
    out = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "custom<TypedNumber>($value, type($out)) attr-dict"

    @property
    def literal(self) -> Literal:
        """The number."""
        return literal_of(self.value)

    def attr(self) -> tuple[Attr, ...]:
        return (literal_of(self.value),)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"value": literal_attr(cast(Literal, attr[0]))}

    def verify_(self) -> None:
        check_literal("the constant", self.value, self.out_type.dtype)
        super().verify_()

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        pass


@irdl_op_definition
class SizeOp(AlgOp):
    """The extent of an axis, `alg.size n : index`."""

    name = "alg.size"
    axis = prop_def(StringAttr)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = "custom<AxisName>($axis) attr-dict `:` custom<Result>(type($out))"

    def attr(self) -> tuple[Attr, ...]:
        return (self.axis.data,)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"axis": StringAttr(str(attr[0]))}

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        need_number("the result", out)

    def verify_extents(self, scope: AxisScope) -> None:
        scope.axis(self.axis.data)


@irdl_op_definition
class IotaOp(AlgOp):
    """The index along an axis, `alg.iota n : !alg.tensor<[n], index>`: `out[n] = n`. Masks are comparisons of these."""

    name = "alg.iota"
    axis = prop_def(StringAttr)
    out = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "custom<AxisName>($axis) attr-dict `:` custom<Result>(type($out))"

    def attr(self) -> tuple[Attr, ...]:
        return (self.axis.data,)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"axis": StringAttr(str(attr[0]))}

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        need_number("the result", out)


class UnaryOp(AlgOp, ABC):
    """An elementwise function of one tensor: arg and out have the same axes. What is computed is a float unless said otherwise."""

    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = "custom<Operand>($arg, type($arg)) attr-dict `:` custom<Result>(type($out))"

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        need_float("the result", out)


class NumberUnaryOp(UnaryOp, ABC):
    """An elementwise function of floats or of integers."""

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        need_number("the result", out)
        need_integers("the result", args, out)


@irdl_op_definition
class NegOp(NumberUnaryOp):
    """Negation, `out = -arg`."""

    name = "alg.neg"


@irdl_op_definition
class AbsOp(NumberUnaryOp):
    """Magnitude, `out = |arg|`."""

    name = "alg.abs"


@irdl_op_definition
class ReluOp(NumberUnaryOp):
    """`out = max(arg, 0)`."""

    name = "alg.relu"


@irdl_op_definition
class ExpOp(UnaryOp):
    """Exponential. Overflows as IEEE 754 does; `alg-stabilize` prevents it. exp(-inf) is 0."""

    name = "alg.exp"


@irdl_op_definition
class LogOp(UnaryOp):
    """Natural logarithm. log(0) is -inf; of a negative number it is NaN."""

    name = "alg.log"


@irdl_op_definition
class SqrtOp(UnaryOp):
    """Square root."""

    name = "alg.sqrt"


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """Reciprocal of the square root, `out = 1 / sqrt(arg)`."""

    name = "alg.rsqrt"


@irdl_op_definition
class TanhOp(UnaryOp):
    """Hyperbolic tangent."""

    name = "alg.tanh"


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """`out = 1 / (1 + exp(-arg))`, without overflow."""

    name = "alg.sigmoid"


@irdl_op_definition
class SiluOp(UnaryOp):
    """`out = arg * sigmoid(arg)`."""

    name = "alg.silu"


@irdl_op_definition
class GeluOp(UnaryOp):
    """`out = arg * (1 + erf(arg / sqrt(2))) / 2`."""

    name = "alg.gelu"


@irdl_op_definition
class GeluTanhOp(UnaryOp):
    """The approximation of gelu by tanh, `out = arg * (1 + tanh(sqrt(2/pi) * (arg + 0.044715 * arg^3))) / 2`."""

    name = "alg.gelu_tanh"


@irdl_op_definition
class SinOp(UnaryOp):
    """Sine of an angle in radians."""

    name = "alg.sin"


@irdl_op_definition
class CosOp(UnaryOp):
    """Cosine of an angle in radians."""

    name = "alg.cos"


@irdl_op_definition
class Expm1Op(UnaryOp):
    """`out = exp(arg) - 1`, as accurate near 0 as elsewhere. Rewrites do not see through it."""

    name = "alg.expm1"


@irdl_op_definition
class Log1pOp(UnaryOp):
    """`out = log(1 + arg)`, as accurate near 0 as elsewhere. Rewrites do not see through it."""

    name = "alg.log1p"


@irdl_op_definition
class ErfOp(UnaryOp):
    """The error function."""

    name = "alg.erf"


@irdl_op_definition
class ErfcOp(UnaryOp):
    """`out = 1 - erf(arg)`, as accurate where that is small as elsewhere."""

    name = "alg.erfc"


@irdl_op_definition
class NotOp(UnaryOp):
    """Logical negation of i1, bitwise of integers."""

    name = "alg.not"

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        _logical(args, out)


def _logical(args: Sequence[str], out: str) -> None:
    for dtype in args:
        if dtype != out or out in FLOATS:
            raise VerifyException(f"operand of element type {dtype} and result of {out}; logic works on one integer type")


class BinaryOp(AlgOp, ABC):
    """
    An elementwise function of two tensors: out has the axes of both, and an operand is repeated along those it lacks.

    Operands are converted to the element type of the result first.
    """

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = "custom<Operand>($lhs, type($lhs)) `,` custom<Operand>($rhs, type($rhs)) attr-dict `:` custom<Result>(type($out))"

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        need_number("the result", out)
        need_integers("the result", args, out)


@irdl_op_definition
class AddOp(BinaryOp):
    """`out = lhs + rhs`."""

    name = "alg.add"
    traits = traits_def(Pure(), Commutative(), Simplifies())


@irdl_op_definition
class SubOp(BinaryOp):
    """`out = lhs - rhs`."""

    name = "alg.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """`out = lhs * rhs`."""

    name = "alg.mul"
    traits = traits_def(Pure(), Commutative(), Simplifies())


@irdl_op_definition
class DivOp(BinaryOp):
    """
    `out = lhs / rhs`, of floats.

    `alg.div %p, %z guarded` is a quotient by a sum of shifted exponentials: 0 where the denominator is 0, as it is only where
    everything is masked. `alg-stabilize` marks it; a plain 0/0 is NaN.
    """

    name = "alg.div"
    guarded = opt_prop_def(UnitAttr)
    assembly_format = (
        "custom<Operand>($lhs, type($lhs)) `,` custom<Operand>($rhs, type($rhs)) (`guarded` $guarded^)? attr-dict `:` "
        "custom<Result>(type($out))"
    )

    def attr(self) -> tuple[Attr, ...]:
        return () if self.guarded is None else ("guarded",)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"guarded": UnitAttr()} if attr else {}

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        need_float("the result", out)


@irdl_op_definition
class MaxOp(BinaryOp):
    """The larger of two numbers; NaN where one is NaN."""

    name = "alg.max"
    traits = traits_def(Pure(), Commutative(), Simplifies())


@irdl_op_definition
class MinOp(BinaryOp):
    """The smaller of two numbers; NaN where one is NaN."""

    name = "alg.min"
    traits = traits_def(Pure(), Commutative(), Simplifies())


@irdl_op_definition
class PowOp(BinaryOp):
    """`out = lhs ^ rhs`, of floats."""

    name = "alg.pow"

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        need_float("the result", out)


@irdl_op_definition
class FloordivOp(BinaryOp):
    """The quotient rounded down, `out = floor(lhs / rhs)`: -7 by 2 is -4."""

    name = "alg.floordiv"


@irdl_op_definition
class ModOp(BinaryOp):
    """The remainder of `alg.floordiv`, with the sign of the divisor: -7 by 2 is 1."""

    name = "alg.mod"


class LogicalOp(BinaryOp, ABC):
    """Logic on i1, bitwise on integers."""

    traits = traits_def(Pure(), Commutative(), Simplifies())

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        _logical(args, out)


@irdl_op_definition
class AndOp(LogicalOp):
    """`out = lhs and rhs`."""

    name = "alg.and"


@irdl_op_definition
class OrOp(LogicalOp):
    """`out = lhs or rhs`."""

    name = "alg.or"


@irdl_op_definition
class CompareOp(AlgOp):
    """A comparison, `alg.compare le %a, %b`: an i1 tensor over the axes of both. Predicates: eq, ne, lt, le, gt, ge."""

    name = "alg.compare"
    predicate = prop_def(PredicateAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = (
        "$predicate custom<Operand>($lhs, type($lhs)) `,` custom<Operand>($rhs, type($rhs)) attr-dict `:` custom<Result>(type($out))"
    )

    def attr(self) -> tuple[Attr, ...]:
        return (self.predicate.data.value,)

    @classmethod
    def properties_from(cls, attr: Sequence[Attr]) -> dict[str, Attribute]:
        return {"predicate": PredicateAttr(Predicate(str(attr[0])))}

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        if out != "i1":
            raise VerifyException(f"the result has element type {out}; a comparison gives i1")


@irdl_op_definition
class SelectOp(AlgOp):
    """`out = condition ? lhs : rhs`, over the axes of all three. The side not taken may be NaN."""

    name = "alg.select"
    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = (
        "custom<Operand>($condition, type($condition)) `,` custom<Operand>($lhs, type($lhs)) `,` "
        "custom<Operand>($rhs, type($rhs)) attr-dict `:` custom<Result>(type($out))"
    )

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        if args[0] != "i1":
            raise VerifyException(f"the condition has element type {args[0]}; it must be i1")
        need_integers("the result", args[1:], out)


@irdl_op_definition
class CastOp(AlgOp):
    """
    Another element type, `alg.cast %x : !alg.tensor<[m], f16>`.

    Between floats this is the identity in the algebra and a matter of precision in code. To an integer it truncates towards
    zero, to i1 it asks whether the number is not 0.
    """

    name = "alg.cast"
    arg = operand_def(TensorType)
    out = result_def(TensorType)
    traits = traits_def(Pure(), Simplifies())
    assembly_format = "custom<Operand>($arg, type($arg)) attr-dict `:` custom<Result>(type($out))"

    def verify_dtypes(self, args: Sequence[str], out: str) -> None:
        pass
