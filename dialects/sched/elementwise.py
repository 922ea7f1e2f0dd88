"""Operations of `sched` on lanes, which broadcast by dimension name, and constants."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import Self

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import (
    Operand,
    literal_attr,
    literal_of,
    literal_text,
    parse_literal,
)
from cleave.dialects.sched.types import TileType, Word, check_within, parse_tile, print_tail, tile_of
from cleave.dialects.simplifies import Simplifies
from cleave.graph import PREDICATES


class ElementwiseOp(IRDLOperation, ABC):
    """
    An operation on lanes that broadcasts by dimension name: each operand's dimensions are among the result's.

    The text names the type of the result alone.
    """

    traits = traits_def(Pure(), Simplifies())
    custom_directives = (Operand, Word)

    def __init__(self, operands: Sequence[SSAValue], out: TileType) -> None:
        super().__init__(operands=list(operands), result_types=[out])

    @property
    def tile(self) -> TileType:
        """The type of the result."""
        return tile_of(self.results[0])

    def verify_(self) -> None:
        for position, operand in enumerate(self.operands):
            check_within(operand, self.tile, f"operand {position}")
        self.verify_elements()

    def verify_elements(self) -> None:
        """The element types fit. Raises: VerifyException."""
        element = self.tile.element
        for position, operand in enumerate(self.operands):
            if tile_of(operand).element != element:
                raise VerifyException(f"operand {position} has elements {tile_of(operand).element} and the result {element}; cast one")


def _need(op: ElementwiseOp, kind: str, fits: Callable[[Attribute], bool]) -> None:
    if not fits(op.tile.element):
        raise VerifyException(f"the elements are {op.tile.element}; {kind} are needed")


class UnaryOp(ElementwiseOp, ABC):
    """`out = f(arg)`."""

    arg = operand_def(TileType)
    out = result_def(TileType)
    assembly_format = "custom<Operand>($arg, type($arg)) attr-dict `:` type($out)"


class FloatUnaryOp(UnaryOp, ABC):
    """A function of floats."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "floats", lambda element: isinstance(element, AnyFloat))


class NumberUnaryOp(UnaryOp, ABC):
    """A function of floats or integers, not booleans."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "numbers", lambda element: element != i1)


class BinaryOp(ElementwiseOp, ABC):
    """`out = f(lhs, rhs)`, operands and result of one element type."""

    lhs = operand_def(TileType)
    rhs = operand_def(TileType)
    out = result_def(TileType)
    assembly_format = "custom<Operand>($lhs, type($lhs)) `,` custom<Operand>($rhs, type($rhs)) attr-dict `:` type($out)"


class FloatBinaryOp(BinaryOp, ABC):
    """A function of two floats."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "floats", lambda element: isinstance(element, AnyFloat))


class NumberBinaryOp(BinaryOp, ABC):
    """A function of two floats or integers, not booleans."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "numbers", lambda element: element != i1)


class BitBinaryOp(BinaryOp, ABC):
    """A function of two booleans or integers."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "booleans or integers", lambda element: not isinstance(element, AnyFloat))


@irdl_op_definition
class NegOp(NumberUnaryOp):
    """`out = -arg`."""

    name = "sched.neg"


@irdl_op_definition
class AbsOp(NumberUnaryOp):
    """The absolute value."""

    name = "sched.abs"


@irdl_op_definition
class ReluOp(NumberUnaryOp):
    """`out = max(arg, 0)`."""

    name = "sched.relu"


@irdl_op_definition
class ExpOp(FloatUnaryOp):
    """`out = e^arg`."""

    name = "sched.exp"


@irdl_op_definition
class Exp2Op(FloatUnaryOp):
    """`out = 2^arg`, one instruction on a GPU."""

    name = "sched.exp2"


@irdl_op_definition
class LogOp(FloatUnaryOp):
    """The natural logarithm."""

    name = "sched.log"


@irdl_op_definition
class Log2Op(FloatUnaryOp):
    """The logarithm to base 2."""

    name = "sched.log2"


@irdl_op_definition
class SqrtOp(FloatUnaryOp):
    """The square root."""

    name = "sched.sqrt"


@irdl_op_definition
class RsqrtOp(FloatUnaryOp):
    """`out = 1 / sqrt(arg)`."""

    name = "sched.rsqrt"


@irdl_op_definition
class TanhOp(FloatUnaryOp):
    """The hyperbolic tangent."""

    name = "sched.tanh"


@irdl_op_definition
class SigmoidOp(FloatUnaryOp):
    """`out = 1 / (1 + e^-arg)`."""

    name = "sched.sigmoid"


@irdl_op_definition
class SiluOp(FloatUnaryOp):
    """`out = arg * sigmoid(arg)`."""

    name = "sched.silu"


@irdl_op_definition
class GeluOp(FloatUnaryOp):
    """`out = arg * Phi(arg)`, Phi the normal distribution, by erf."""

    name = "sched.gelu"


@irdl_op_definition
class GeluTanhOp(FloatUnaryOp):
    """The approximation of gelu by tanh."""

    name = "sched.gelu_tanh"


@irdl_op_definition
class SinOp(FloatUnaryOp):
    """The sine, arg in radians."""

    name = "sched.sin"


@irdl_op_definition
class CosOp(FloatUnaryOp):
    """The cosine, arg in radians."""

    name = "sched.cos"


@irdl_op_definition
class Expm1Op(FloatUnaryOp):
    """`out = exp(arg) - 1`, as accurate near 0 as elsewhere."""

    name = "sched.expm1"


@irdl_op_definition
class Log1pOp(FloatUnaryOp):
    """`out = log(1 + arg)`, as accurate near 0 as elsewhere."""

    name = "sched.log1p"


@irdl_op_definition
class ErfOp(FloatUnaryOp):
    """The error function."""

    name = "sched.erf"


@irdl_op_definition
class ErfcOp(FloatUnaryOp):
    """`out = 1 - erf(arg)`, as accurate where that is small as elsewhere."""

    name = "sched.erfc"


@irdl_op_definition
class NotOp(UnaryOp):
    """The complement, bit by bit."""

    name = "sched.not"

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "booleans or integers", lambda element: not isinstance(element, AnyFloat))


@irdl_op_definition
class AddOp(NumberBinaryOp):
    """`out = lhs + rhs`."""

    name = "sched.add"


@irdl_op_definition
class SubOp(NumberBinaryOp):
    """`out = lhs - rhs`."""

    name = "sched.sub"


@irdl_op_definition
class MulOp(NumberBinaryOp):
    """`out = lhs * rhs`."""

    name = "sched.mul"


@irdl_op_definition
class MaxOp(NumberBinaryOp):
    """The greater; NaN where a float operand is NaN."""

    name = "sched.max"


@irdl_op_definition
class MinOp(NumberBinaryOp):
    """The lesser; NaN where a float operand is NaN."""

    name = "sched.min"


@irdl_op_definition
class FloordivOp(NumberBinaryOp):
    """`out = floor(lhs / rhs)`; index values are not negative."""

    name = "sched.floordiv"


@irdl_op_definition
class ModOp(NumberBinaryOp):
    """`out = lhs - floor(lhs / rhs) * rhs`; index values are not negative."""

    name = "sched.mod"


@irdl_op_definition
class DivOp(FloatBinaryOp):
    """`out = lhs / rhs`, rounded to nearest."""

    name = "sched.div"


@irdl_op_definition
class PowOp(FloatBinaryOp):
    """`out = lhs^rhs`."""

    name = "sched.pow"


@irdl_op_definition
class AndOp(BitBinaryOp):
    """Both, bit by bit."""

    name = "sched.and"


@irdl_op_definition
class OrOp(BitBinaryOp):
    """Either, bit by bit."""

    name = "sched.or"


@irdl_op_definition
class CastOp(UnaryOp):
    """The value in another element type: floats round to nearest even, float to integer truncates, i1 becomes 0 or 1."""

    name = "sched.cast"

    def verify_elements(self) -> None:
        if tile_of(self.arg).shape != self.tile.shape:
            raise VerifyException("a cast keeps dimensions; use sched.broadcast for others")


@irdl_op_definition
class BroadcastOp(UnaryOp):
    """The value repeated along the dimensions that it lacks."""

    name = "sched.broadcast"


@irdl_op_definition
class CompareOp(ElementwiseOp):
    """`out = lhs predicate rhs` with predicate one of eq, ne, lt, le, gt, ge; false where a float operand is NaN, except ne."""

    name = "sched.compare"
    lhs = operand_def(TileType)
    rhs = operand_def(TileType)
    out = result_def(TileType)
    predicate = prop_def(StringAttr)
    assembly_format = (
        "custom<Word>($predicate) custom<Operand>($lhs, type($lhs)) `,` custom<Operand>($rhs, type($rhs)) attr-dict `:` type($out)"
    )

    def __init__(self, predicate: str, lhs: SSAValue, rhs: SSAValue, out: TileType) -> None:
        IRDLOperation.__init__(self, operands=[lhs, rhs], result_types=[out], properties={"predicate": StringAttr(predicate)})

    def verify_elements(self) -> None:
        if self.predicate.data not in PREDICATES:
            raise VerifyException(f"'{self.predicate.data}' is not a predicate; use {', '.join(PREDICATES)}")
        if self.tile.element != i1:
            raise VerifyException(f"the result has elements {self.tile.element}; a comparison gives i1")
        if tile_of(self.lhs).element != tile_of(self.rhs).element:
            raise VerifyException(f"the operands have elements {tile_of(self.lhs).element} and {tile_of(self.rhs).element}; cast one")


@irdl_op_definition
class SelectOp(ElementwiseOp):
    """`out = condition ? on_true : on_false`, lane by lane."""

    name = "sched.select"
    condition = operand_def(TileType)
    on_true = operand_def(TileType)
    on_false = operand_def(TileType)
    out = result_def(TileType)
    assembly_format = (
        "custom<Operand>($condition, type($condition)) `,` custom<Operand>($on_true, type($on_true)) `,`"
        " custom<Operand>($on_false, type($on_false)) attr-dict `:` type($out)"
    )

    def verify_elements(self) -> None:
        if tile_of(self.condition).element != i1:
            raise VerifyException(f"the condition has elements {tile_of(self.condition).element}; i1 is needed")
        for what, operand in (("true", self.on_true), ("false", self.on_false)):
            if tile_of(operand).element != self.tile.element:
                raise VerifyException(f"the {what} operand has elements {tile_of(operand).element} and the result {self.tile.element}")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """Every lane is `value`: a float (exact in f64), an integer, or a boolean as the result's elements ask."""

    name = "sched.constant"
    value = prop_def(IntegerAttr | FloatAttr)
    out = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, value: float, out: TileType) -> None:
        super().__init__(result_types=[out], properties={"value": literal_attr(value)})

    @property
    def number(self) -> float | int | bool:
        """The value: bool for i1, int for integers, float for floats."""
        return literal_of(self.value)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        literal = parse_literal(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        out = parse_tile(parser)
        try:
            value = literal_attr(literal(str(out.element)))
        except ValueError as error:
            parser.raise_error(str(error), position)
        return cls.create(result_types=[out], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {literal_text(self.number)}")
        print_tail(self, printer)

    def verify_(self) -> None:
        element = tile_of(self.out).element
        is_float, is_boolean = isinstance(self.value, FloatAttr), self.value.type == i1
        if is_float != isinstance(element, AnyFloat) or is_boolean != (element == i1):
            raise VerifyException(f"value {self.value} does not fit elements {element}")
