"""
Patterns that simplify the algebra, which the pass `canonicalize` finds through the operations.

    %a = alg.mul %x, %one      ->  %x
    %s = alg.add %half, %half  ->  %s = alg.constant 1.0 : f32
    %g = alg.compare ne %q, %q
    %r = alg.select %g, %zero, %q   ->  %q       (%q a guarded quotient)

Equality: the values are the same as real numbers, and infinities stay what they are. What a pattern takes for granted beyond
that stands with it. Left alone: what only a cost makes attractive (the search decides on it), reductions of a split, whose
phases a schedule needs apart, and what a NaN would come out of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import Commutative

from cleave.assembly import Literal, names_of
from cleave.dialects.alg import (
    OPERATIONS,
    AlgOp,
    CastOp,
    CompareOp,
    ConstantOp,
    ContractOp,
    DivOp,
    MergeOp,
    NegOp,
    NotOp,
    PowOp,
    ReduceOp,
    RenameOp,
    SelectOp,
    SizeOp,
    SliceOp,
    SplitOp,
    TensorType,
    enclosing_scope,
)
from cleave.graph import BINARY, FLOATS, UNARY, Attr
from cleave.reference import Call, Named, Setting, meaning


def patterns_of(name: str) -> tuple[RewritePattern, ...]:
    """The patterns rooted at the operation of that name."""
    return _PATTERNS.get(name.removeprefix("alg."), ())


def _type(value: SSAValue) -> TensorType:
    return cast(TensorType, value.type)


def _literal(value: SSAValue) -> Literal | None:
    return value.owner.literal if isinstance(value.owner, ConstantOp) else None


def _becomes(rewriter: PatternRewriter, op: AlgOp, value: SSAValue) -> bool:
    """Replaces an operation by a value over the same axes, cast where the element types differ. False where axes differ."""
    if set(_type(value).axes) != set(op.out_type.axes):
        return False
    if _type(value).dtype == op.out_type.dtype:
        rewriter.replace(op, [], [value])
    else:
        _replace(rewriter, op, "cast", [value])
    return True


def _replace(rewriter: PatternRewriter, op: AlgOp, kind: str, operands: Sequence[SSAValue], attr: Sequence[Attr] = ()) -> None:
    cls = OPERATIONS[kind]
    made = cls.create(operands=operands, result_types=[op.out_type], properties=cls.properties_from(attr))
    made.location = op.location
    rewriter.replace(op, made)


class FoldConstants(RewritePattern):
    """An operation on constants is a constant, computed in double precision; one that gives NaN stays."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, AlgOp) or not op.operands:
            return
        literals = [_literal(operand) for operand in op.operands]
        if any(literal is None for literal in literals):
            return
        setting = Setting({}, {})
        args: list[Named] = []
        for operand in op.operands:
            constant = cast(ConstantOp, operand.owner)
            args.append(meaning(Call("constant", (), constant.out_type.dtype, constant.attr(), (), setting)))
        folded = meaning(Call(op.kind, (), op.out_type.dtype, op.attr(), tuple(args), setting)).data.item()
        if folded == folded:
            _replace(rewriter, op, "constant", [], (folded,))


class FoldSize(RewritePattern):
    """The size of an axis of static extent is a constant."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        scope = enclosing_scope(op)
        if not isinstance(op, SizeOp) or scope is None:
            return
        known = scope.axis(op.axis.data).extent.constant
        if known is not None:
            _replace(rewriter, op, "constant", [], (float(known) if op.out_type.dtype in FLOATS else known,))


class DropNeutralOperand(RewritePattern):
    """`x + 0`, `x * 1`, `x - 0`, `x / 1`, `x ^ 1`, `max(x, -inf)`, `min(x, inf)`, `x and true`, `x or false` are x (0 for -0)."""

    NEUTRAL: ClassVar[dict[str, Literal]] = {
        "add": 0, "sub": 0, "mul": 1, "div": 1, "pow": 1, "max": float("-inf"), "min": float("inf"), "and": True, "or": False,
    }  # fmt: skip

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, AlgOp):
            return
        lhs, rhs = op.operands
        neutral = self.NEUTRAL[op.kind]
        if _is(rhs, neutral) and _becomes(rewriter, op, lhs):
            return
        if op.has_trait(Commutative) and _is(lhs, neutral):
            _becomes(rewriter, op, rhs)


def _is(value: SSAValue, wanted: Literal) -> bool:
    found = _literal(value)
    return found is not None and isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


class DropRepeatedOperand(RewritePattern):
    """`max(x, x)`, `min(x, x)`, `x and x`, `x or x` are x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, AlgOp) and op.operands[0] is op.operands[1]:
            _becomes(rewriter, op, op.operands[0])


class DropDoubleInverse(RewritePattern):
    """`-(-x)` and `not not x` are x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, NegOp | NotOp) and isinstance(op.arg.owner, type(op)) and _type(op.arg).dtype == op.out_type.dtype:
            _becomes(rewriter, op, op.arg.owner.operands[0])


class SquareByProduct(RewritePattern):
    """`x ^ 2` is `x * x`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, PowOp) and _is(op.rhs, 2):
            _replace(rewriter, op, "mul", [op.lhs, op.lhs])


class DropCast(RewritePattern):
    """A cast to the type that is there, or back to it by way of a float type that holds all of it."""

    _HOLDS: ClassVar[dict[str, tuple[str, ...]]] = {"f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",)}

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, CastOp):
            return
        between, to = _type(op.arg).dtype, op.out_type.dtype
        if between == to:
            _becomes(rewriter, op, op.arg)
        elif isinstance(op.arg.owner, CastOp):
            source = op.arg.owner.arg
            if _type(source).dtype == to and between in self._HOLDS.get(to, ()):
                _becomes(rewriter, op, source)


class SimplifySelect(RewritePattern):
    """
    A choice that is known, or between two equal values.

    The condition is a constant, compares an integer with itself, or asks whether a guarded quotient is NaN. Such a quotient
    is a number for every input without NaN and +inf: what makes 0/0 of a masked row is its guard.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, SelectOp):
            return
        known = _truth(op.condition)
        if known is not None:
            _becomes(rewriter, op, op.lhs if known else op.rhs)
        elif op.lhs is op.rhs:
            _becomes(rewriter, op, op.lhs)


def _truth(condition: SSAValue) -> bool | None:
    """What an i1 value is everywhere, if that is known."""
    owner = condition.owner
    if isinstance(owner, NotOp):
        inner = _truth(owner.arg)
        return None if inner is None else not inner
    if isinstance(owner, CompareOp) and owner.lhs is owner.rhs and _is_number(owner.lhs):
        return owner.predicate.data.value in ("eq", "le", "ge")
    literal = _literal(condition)
    return literal if isinstance(literal, bool) else None


def _is_number(value: SSAValue) -> bool:
    """Whether a value is no NaN for inputs that are numbers or -inf."""
    if _type(value).dtype not in FLOATS:
        return True
    owner = value.owner
    if isinstance(owner, CastOp | NegOp):
        return _is_number(owner.arg)
    return isinstance(owner, DivOp) and owner.guarded is not None


class DropEmptyReduction(RewritePattern):
    """A reduction over no axis."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, ReduceOp) and not op.axes.data:
            _becomes(rewriter, op, op.arg)


class MergeReductions(RewritePattern):
    """
    `reduce sum (reduce sum x over [a]) over [b]` is `reduce sum x over [a, b]`; max and min likewise.

    Only where the inner result has no other use, and none of the axes comes from a split.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, ReduceOp) or not isinstance(op.arg.owner, ReduceOp):
            return
        inner = op.arg.owner
        same = inner.reduction == op.reduction and _type(inner.arg).dtype == inner.out_type.dtype == op.out_type.dtype
        scope = enclosing_scope(op)
        if not same or scope is None or not inner.out.has_one_use():
            return
        parts = {name for axis in scope.declared() if axis.chunk_of is not None for name in (axis.name, axis.chunk_of[1])}
        axes = (*names_of(inner.axes), *names_of(op.axes))
        if not parts.intersection(axes):
            _replace(rewriter, op, "reduce", [inner.arg], (op.reduction.data.value, axes))


class SumByReduction(RewritePattern):
    """A contraction of one tensor is a sum of it."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, ContractOp) and len(op.args) == 1:
            _replace(rewriter, op, "reduce", op.args, ("sum", names_of(op.axes)))


class SimplifyRename(RewritePattern):
    """A renaming that renames nothing, and one after another."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, RenameOp):
            return
        pairs = _renames(op)
        if all(old == new for old, new in pairs.items()):
            _becomes(rewriter, op, op.arg)
        elif isinstance(op.arg.owner, RenameOp):
            first = _renames(op.arg.owner)
            source = op.arg.owner.arg
            middle = {axis: first.get(axis, axis) for axis in _type(source).axes}
            both = {axis: pairs.get(name, name) for axis, name in middle.items()}
            _replace(rewriter, op, "rename", [source], (tuple(pair for pair in both.items() if pair[0] != pair[1]),))


def _renames(op: RenameOp) -> dict[str, str]:
    pairs = [names_of(pair) for pair in op.pairs]
    return {pair[0]: pair[1] for pair in pairs}


class DropSplitBeforeMerge(RewritePattern):
    """Merging what was split is the tensor as it was; what the split made up is left out."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, MergeOp) or not isinstance(op.arg.owner, SplitOp):
            return
        split = op.arg.owner
        if (split.axis, split.outer, split.inner) == (op.axis, op.outer, op.inner):
            _becomes(rewriter, op, split.arg)


class RenameWholeSlice(RewritePattern):
    """A slice of a whole axis is a renaming."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        scope = enclosing_scope(op)
        if not isinstance(op, SliceOp) or scope is None or op.start.data.constant != 0 or op.step.value.data != 1:
            return
        old, new = scope.axis(op.axis.data), scope.axis(op.new_axis.data)
        if old.extent == new.extent:
            _replace(rewriter, op, "rename", [op.arg], (((old.name, new.name),),))


def _table() -> dict[str, tuple[RewritePattern, ...]]:
    out: dict[str, list[RewritePattern]] = {kind: [] for kind in OPERATIONS}
    for kind in (*UNARY, *BINARY, "compare", "select", "cast"):
        out[kind].append(FoldConstants())
    for kind in DropNeutralOperand.NEUTRAL:
        out[kind].append(DropNeutralOperand())
    for kind in ("max", "min", "and", "or"):
        out[kind].append(DropRepeatedOperand())
    for kind in ("neg", "not"):
        out[kind].append(DropDoubleInverse())
    out["pow"].append(SquareByProduct())
    out["size"].append(FoldSize())
    out["select"].append(SimplifySelect())
    out["cast"].append(DropCast())
    out["reduce"] += [DropEmptyReduction(), MergeReductions()]
    out["contract"].append(SumByReduction())
    out["rename"].append(SimplifyRename())
    out["merge"].append(DropSplitBeforeMerge())
    out["slice"].append(RenameWholeSlice())
    return {kind: tuple(patterns) for kind, patterns in out.items()}


_PATTERNS = _table()
