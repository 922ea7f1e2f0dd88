"""
The values of a `tt.func` as Triton Python expressions.

Splats, broadcasts and new axes are no operations: Triton broadcasts by itself, and where that would give another shape than the IR
says, one operand is broadcast explicitly.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, IntegerType
from xdsl.ir import Operation, SSAValue

from cleave.dialects import tt
from cleave.errors import CleaveError
from cleave.targets.expressions import (
    ATOM,
    CALLS,
    COMPARE,
    INFIX,
    PLUS,
    PREDICATES,
    REDUCTIONS,
    UNARY,
    Expression,
    call,
    dtype_name,
    infix,
    joined,
    literal,
)

_CONVERSIONS = (
    arith.ExtFOp,
    arith.TruncFOp,
    tt.SIToFPOp,
    tt.UIToFPOp,
    tt.FPToSIOp,
    tt.ExtSIOp,
    tt.ExtUIOp,
    tt.TruncIOp,
)


class ValueText:
    """Expressions of values; `known` are those that were given a name, or are kept for their one user."""

    def __init__(self) -> None:
        self.known: dict[SSAValue, Expression] = {}

    def stripped(self, value: SSAValue) -> Expression:
        """The value without the broadcasts that Triton does by itself; its shape may be smaller than the IR's."""
        if value in self.known:
            return self.known[value]
        op = value.owner
        match op:
            case tt.SplatOp(src=src) | tt.BroadcastOp(src=src):
                return self.stripped(src)
            case tt.ExpandDimsOp():
                return self.with_axes(op)
            case arith.ConstantOp(value=attr):
                number = tt.splat_value(attr)
                if number is None:
                    raise CleaveError(op, "holds several numbers", "only constants of one number have a Triton form")
                text = literal(number, tt.element_of(value.type))
                return Expression(text, UNARY if text.startswith("-") else ATOM, literal=True)
            case _:
                raise CleaveError(None, f"uses %{value.name_hint or 'a value'} where it is not defined", "define it before")

    def with_axes(self, op: tt.ExpandDimsOp) -> Expression:
        """A run of new axes as one subscript, `x[:, None]`."""
        axes: list[int] = []
        source: SSAValue = op.result
        while source not in self.known and isinstance(source.owner, tt.ExpandDimsOp):
            axes.append(source.owner.axis.value.data)
            source = source.owner.src
        inner = self.stripped(source)
        if not inner.shape:
            return inner
        kept = [":"] * len(tt.shape_of(source.type))
        shape = list(inner.shape)
        for axis in reversed(axes):
            kept.insert(axis, "None")
            shape.insert(axis, 1)
        return Expression(f"{inner.at(ATOM)}[{', '.join(kept)}]", ATOM, tuple(shape), inner.reads)

    def full(self, value: SSAValue) -> Expression:
        """The value in exactly the shape that the IR gives it."""
        inner, shape = self.stripped(value), tt.shape_of(value.type)
        if inner.shape == shape and not (inner.literal and shape == ()):
            return inner
        element = tt.element_of(value.type)
        if isinstance(element, tt.PtrType):
            if inner.shape:
                return Expression(f"tl.broadcast_to({inner.text}, {list(shape)})", ATOM, shape, inner.reads)
            return Expression(f"{inner.at(PLUS)} + tl.zeros({list(shape)}, tl.int32)", PLUS, shape, inner.reads)
        kind = dtype_name(element)
        if not shape:
            return Expression(f"tl.cast({inner.text}, {kind})", ATOM, (), inner.reads)
        if inner.shape:
            return Expression(f"tl.broadcast_to({inner.text}, {list(shape)})", ATOM, shape, inner.reads)
        if inner.literal and inner.text in ("0", "0.0"):
            return Expression(f"tl.zeros({list(shape)}, {kind})", ATOM, shape)
        return Expression(f"tl.full({list(shape)}, {inner.text}, {kind})", ATOM, shape, inner.reads)

    def operands(self, values: Sequence[SSAValue], result: SSAValue) -> list[Expression]:
        """Operands of an elementwise operation, so that Triton's broadcasting gives the IR's shape and type."""
        out = [self.stripped(value) for value in values]
        if joined([entry.shape for entry in out]) != tt.shape_of(result.type) or all(entry.literal for entry in out):
            out[0] = self.full(values[0])
        return out

    def expression(self, op: Operation) -> Expression:
        """The text that computes an operation. Raises: CleaveError for one that has no form."""
        kind = type(op)
        if kind in INFIX:
            return self.infix(op)
        if kind in CALLS:
            arguments = self.operands(op.operands, op.results[0])
            texts = [argument.text for argument in arguments]
            if isinstance(op, arith.MaximumfOp | arith.MinimumfOp):
                texts.append("propagate_nan=tl.PropagateNan.ALL")
            return call(CALLS[kind], texts, arguments)
        if isinstance(op, _CONVERSIONS):
            return self.conversion(op)
        match op:
            case arith.NegfOp():
                (operand,) = self.operands(op.operands, op.result)
                return Expression(f"-{operand.at(UNARY)}", UNARY, operand.shape, operand.reads)
            case tt.CmpIOp() | tt.CmpFOp():
                left, right = self.operands(op.operands, op.result)
                text = f"{left.at(COMPARE + 1)} {PREDICATES[op.spelled]} {right.at(COMPARE + 1)}"
                return Expression(text, COMPARE, joined((left.shape, right.shape)), left.reads | right.reads)
            case tt.SelectOp():
                return self.select(op)
            case tt.AddPtrOp():
                left, right = self.operands(op.operands, op.result)
                return infix("+", PLUS, left, right)
            case tt.GetProgramIdOp() | tt.GetNumProgramsOp():
                callee = "tl.program_id" if isinstance(op, tt.GetProgramIdOp) else "tl.num_programs"
                return Expression(f"{callee}({op.axis.value.data})")
            case tt.MakeRangeOp():
                return Expression(f"tl.arange({op.start.value.data}, {op.end.value.data})", shape=tt.shape_of(op.result.type))
            case tt.TransOp():
                operand = self.full(op.src)
                order = op.permutation
                text = f"tl.trans({operand.text})" if order == [1, 0] else f"tl.permute({operand.text}, {order})"
                return Expression(text, ATOM, tt.shape_of(op.result.type), operand.reads)
            case tt.ReshapeOp():
                shape = tt.shape_of(op.result.type)
                return call("tl.reshape", [self.full(op.src).text, str(list(shape))], [self.full(op.src)], shape)
            case tt.BitcastOp():
                operand = self.full(op.src)
                kind_name = dtype_name(tt.element_of(op.result.type))
                return Expression(f"{operand.at(ATOM)}.to({kind_name}, bitcast=True)", ATOM, operand.shape, operand.reads)
            case tt.LoadOp():
                return self.load(op)
            case tt.MakeTensorDescOp():
                return self.descriptor(op)
            case tt.DescriptorLoadOp():
                desc, places = self.stripped(op.desc), [self.stripped(index) for index in op.indices]
                text = f"{desc.at(ATOM)}.load([{', '.join(place.text for place in places)}])"
                return Expression(text, ATOM, tt.shape_of(op.result.type), desc.reads.union(*(place.reads for place in places)))
            case tt.DotOp():
                return self.dot(op)
            case tt.AtomicRMWOp(kind="add") if op.mask is None:
                pointer, value = self.full(op.ptr), self.stripped(op.val)
                texts = [pointer.text, value.text, f'sem="{op.order}"', f'scope="{op.extent}"']
                return call("tl.atomic_add", texts, [pointer, value], tt.shape_of(op.result.type))
            case tt.ReduceOp():
                operand = self.full(op.srcs[0])
                combine = op.combine.block.first_op
                callee = REDUCTIONS.get(type(combine)) if combine is not None else None
                if callee is None:
                    raise CleaveError(op, "combines by what is no sum, maximum or minimum", "use one of these")
                arguments = [operand.text, str(op.axis.value.data)]
                return call(callee, arguments, [operand], tt.shape_of(op.results_[0].type))
            case _:
                raise CleaveError(op, "has no Triton form")

    def infix(self, op: Operation) -> Expression:
        symbol, level = INFIX[type(op)]
        left, right = self.operands(op.operands, op.results[0])
        if symbol == "^" and right.literal and right.text in ("True", "-1"):
            return Expression(f"~{left.at(UNARY)}", UNARY, left.shape, left.reads)
        return infix(symbol, level, left, right)

    def select(self, op: tt.SelectOp) -> Expression:
        condition, left, right = self.operands(op.operands, op.result)
        if left.literal and right.literal and tt.element_of(op.result.type) not in (Float32Type(), IntegerType(32)):
            left = self.full(op.on_true)
        return call("tl.where", [condition.text, left.text, right.text], [condition, left, right])

    def conversion(self, op: Operation) -> Expression:
        kind = dtype_name(tt.element_of(op.results[0].type))
        if not tt.shape_of(op.results[0].type):
            operand = self.stripped(op.operands[0])
            return Expression(f"tl.cast({operand.text}, {kind})", ATOM, (), operand.reads)
        operand = self.full(op.operands[0])
        return Expression(f"{operand.at(ATOM)}.to({kind})", ATOM, operand.shape, operand.reads)

    def load(self, op: tt.LoadOp) -> Expression:
        pointer = self.full(op.ptr)
        texts, reads = [pointer.text], [pointer]
        if op.mask is not None:
            reads.append(self.stripped(op.mask))
            texts.append(f"mask={reads[-1].text}")
        if op.other is not None:
            reads.append(self.stripped(op.other))
            texts.append(f"other={reads[-1].text}")
        for keyword, names, value in (("eviction_policy", tt.EVICTIONS, op.evict), ("cache_modifier", tt.CACHES, op.cache)):
            for name, number in names.items():
                if name and number == value.value.data:
                    texts.append(f'{keyword}="{"." if names is tt.CACHES else ""}{name}"')
        return call("tl.load", texts, reads, tt.shape_of(op.result.type))

    def descriptor(self, op: tt.MakeTensorDescOp) -> Expression:
        base, parts = self.stripped(op.base), [[self.stripped(value) for value in values] for values in (op.shape, op.strides)]
        lists = [f"[{', '.join(entry.text for entry in part)}]" for part in parts]
        texts = [base.text, f"shape={lists[0]}", f"strides={lists[1]}", f"block_shape={list(tt.shape_of(op.result.type.block))}"]
        return call("tl.make_tensor_descriptor", texts, [base, *parts[0], *parts[1]], ())

    def dot(self, op: tt.DotOp) -> Expression:
        arguments = [self.full(op.a), self.full(op.b)]
        acc = self.stripped(op.c)
        if not (acc.literal and acc.text == "0.0"):
            arguments.append(self.full(op.c))
        texts = [argument.text for argument in arguments]
        if isinstance(tt.element_of(op.a.type), Float32Type):
            texts.append(f'input_precision="{op.precision}"')
        return call("tl.dot", texts, arguments, tt.shape_of(op.d.type))
