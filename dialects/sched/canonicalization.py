"""
Patterns that simplify tile programs, which the pass `canonicalize` finds through the operations.

    %a = sched.cast %x : <type of %x>        ->  %x
    %b = sched.broadcast %x : <type of %x>   ->  %x
    %c = sched.add %x, %zero                 ->  %x      (index: also - 0, * 1, // 1; floats: * 1, / 1)
    %d = sched.select %true, %x, %y          ->  %x

Equality is exact, to the last bit; adding 0.0 is left alone, as it turns -0.0 into 0.0. What would change a tile's dimensions
is left alone too.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from cleave.dialects import sched

_NEUTRAL_RIGHT = {"sched.add": 0, "sched.sub": 0, "sched.mul": 1, "sched.floordiv": 1, "sched.div": 1}
_NEUTRAL_LEFT = {"sched.add": 0, "sched.mul": 1}


def _becomes(op: Operation, value: SSAValue, rewriter: PatternRewriter) -> None:
    """Replaces an operation by a value of its own type; another type is left alone."""
    if value.type == op.results[0].type:
        rewriter.replace(op, [], [value])


def _number(value: SSAValue) -> float | int | bool | None:
    return value.owner.number if isinstance(value.owner, sched.ConstantOp) else None


class DropIdentity(RewritePattern):
    """A cast or a broadcast to the type that the operand has."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: sched.CastOp | sched.BroadcastOp, rewriter: PatternRewriter) -> None:
        _becomes(op, op.arg, rewriter)


class DropNeutralOperand(RewritePattern):
    """An operand that changes nothing."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, sched.BinaryOp):
            return
        is_float = isinstance(op.tile.element, AnyFloat)
        for table, neutral, kept in ((_NEUTRAL_RIGHT, op.rhs, op.lhs), (_NEUTRAL_LEFT, op.lhs, op.rhs)):
            wanted = table.get(op.name)
            if wanted is None or (is_float and wanted == 0) or (is_float and op.name == "sched.floordiv"):
                continue
            if _number(neutral) == wanted and kept.type == op.out.type:
                rewriter.replace(op, [], [kept])
                return


class DecideSelect(RewritePattern):
    """A condition that is known."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: sched.SelectOp, rewriter: PatternRewriter) -> None:
        known = _number(op.condition)
        if known is not None:
            _becomes(op, op.on_true if known else op.on_false, rewriter)


def patterns_of(name: str) -> tuple[RewritePattern, ...]:
    """The patterns rooted at the operation of that name."""
    match name:
        case "sched.cast" | "sched.broadcast":
            return (DropIdentity(),)
        case "sched.select":
            return (DecideSelect(),)
        case _ if name in _NEUTRAL_RIGHT:
            return (DropNeutralOperand(),)
        case _:
            return ()
