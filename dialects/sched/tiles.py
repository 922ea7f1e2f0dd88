"""Indices, reductions and products of `sched`."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import (
    AnyFloat,
    Float32Type,
    IndexType,
    StringAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import Operand
from cleave.dialects.sched.types import FLOAT_TYPES, TileType, Word, is_scalar_index, parse_defined, print_tail, spelled, tile_of
from cleave.graph import REDUCTIONS


@irdl_op_definition
class RangeOp(IRDLOperation):
    """`out[i] = start + i` along the one dimension of the result: the indices a tile covers."""

    name = "sched.range"
    start = operand_def(TileType)
    out = result_def(TileType)
    traits = traits_def(Pure())
    custom_directives = (Operand,)
    assembly_format = "custom<Operand>($start, type($start)) attr-dict `:` type($out)"

    def __init__(self, start: SSAValue, out: TileType) -> None:
        super().__init__(operands=[start], result_types=[out])

    def verify_(self) -> None:
        out = tile_of(self.out)
        if not is_scalar_index(self.start):
            raise VerifyException(f"the start is {self.start.type}; an index scalar is needed")
        if len(out.dims) != 1 or not isinstance(out.element, IndexType):
            raise VerifyException(f"the result is {out}; an index tile of one dimension is needed")


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """
    Removes one dimension by sum, max, min or maxnum: `sched.reduce max %x over n : !sched.tile<[m = 64], f32>`.

    A maximum or minimum with a NaN among its elements is NaN; maxnum, of floats, leaves those out.
    """

    name = "sched.reduce"
    kind = prop_def(StringAttr)
    dim = prop_def(StringAttr)
    value = operand_def(TileType)
    out = result_def(TileType)
    traits = traits_def(Pure())
    custom_directives = (Operand, Word)
    assembly_format = "custom<Word>($kind) custom<Operand>($value, type($value)) `over` custom<Word>($dim) attr-dict `:` type($out)"

    def __init__(self, kind: str, value: SSAValue, dim: str, out: TileType) -> None:
        super().__init__(operands=[value], result_types=[out], properties={"kind": StringAttr(kind), "dim": StringAttr(dim)})

    def verify_(self) -> None:
        shape, out = tile_of(self.value).shape, tile_of(self.out)
        if self.kind.data not in (*REDUCTIONS, "maxnum"):
            raise VerifyException(f"'{self.kind.data}' is not a reduction; use sum, max, min or maxnum")
        if self.kind.data == "maxnum" and not isinstance(tile_of(self.value).element, FLOAT_TYPES):
            raise VerifyException(f"maxnum is a reduction of floats, not of {tile_of(self.value).element}; use max")
        if self.dim.data not in shape:
            raise VerifyException(f"dimension '{self.dim.data}' is not in the operand {spelled(shape)}")
        del shape[self.dim.data]
        if list(out.shape.items()) != list(shape.items()) or out.element != tile_of(self.value).element:
            raise VerifyException(f"the result is {out}; the reduction gives {spelled(shape)} of {tile_of(self.value).element}")


@irdl_op_definition
class DotOp(IRDLOperation):
    """
    Matrix product accumulated in f32, `out = a . b + acc`.

    Shapes: a [batch..., m, over], b [batch..., over, n], acc and out [batch..., m, n] with at most one batch dimension.
    `precision` says how f32 operands are multiplied: ieee (exact) or tf32.
    """

    name = "sched.dot"
    a = operand_def(TileType)
    b = operand_def(TileType)
    acc = opt_operand_def(TileType)
    over = prop_def(StringAttr)
    precision = prop_def(StringAttr)
    out = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, a: SSAValue, b: SSAValue, over: str, acc: SSAValue | None, out: TileType, precision: str = "ieee") -> None:
        super().__init__(
            operands=[a, b, acc], result_types=[out], properties={"over": StringAttr(over), "precision": StringAttr(precision)}
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        a = parse_defined(parser)
        parser.parse_punctuation(",")
        b = parse_defined(parser)
        parser.parse_keyword("over")
        over = parser.parse_identifier()
        operands = [a, b]
        if parser.parse_optional_keyword("acc"):
            operands.append(parse_defined(parser))
        precision = parser.parse_identifier() if parser.parse_optional_keyword("precision") else "ieee"
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        properties: dict[str, Attribute] = {"over": StringAttr(over), "precision": StringAttr(precision)}
        return cls.create(operands=operands, result_types=[parser.parse_type()], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.a, self.b), printer.print_operand)
        printer.print_string(f" over {self.over.data}")
        if self.acc is not None:
            printer.print_string(" acc ")
            printer.print_operand(self.acc)
        if self.precision.data != "ieee":
            printer.print_string(f" precision {self.precision.data}")
        print_tail(self, printer)

    def verify_(self) -> None:
        a, b, out = (list(tile_of(value).shape.items()) for value in (self.a, self.b, self.out))
        if len(a) not in (2, 3) or len(b) != len(a) or a[:-2] != b[:-2]:
            raise VerifyException(f"the operands have dimensions {spelled(dict(a))} and {spelled(dict(b))}; a dot multiplies two matrices")
        if a[-1][0] != self.over.data or b[-2] != a[-1]:
            raise VerifyException(f"'{self.over.data}' is not last in {spelled(dict(a))} and last but one in {spelled(dict(b))}")
        if out != [*a[:-1], b[-1]] or not isinstance(tile_of(self.out).element, Float32Type):
            raise VerifyException(f"the result is {self.out.type}; the product is {spelled(dict([*a[:-1], b[-1]]))} of f32")
        if self.acc is not None and self.acc.type != self.out.type:
            raise VerifyException(f"the accumulator is {self.acc.type} and the result {self.out.type}")
        element = tile_of(self.a).element
        if element != tile_of(self.b).element or not isinstance(element, AnyFloat):
            raise VerifyException(f"the operands have elements {element} and {tile_of(self.b).element}; two equal float types are needed")
        if self.precision.data not in ("ieee", "tf32"):
            raise VerifyException(f"'{self.precision.data}' is not a precision; use ieee or tf32")
