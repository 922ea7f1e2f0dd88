"""
The body of one `tt.func` as Triton Python, statement by statement.

A value is written where it is used if that is once, in the same body, and short; else it gets a line, its name from the IR
and a comment with its dimensions. Splats, broadcasts and new axes never get a line. Loads always get a line, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, gpu, scf
from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from cleave.dialects import tt
from cleave.errors import CleaveError
from cleave.targets.expressions import Expression, call, variable
from cleave.targets.names import Names
from cleave.targets.value_text import ValueText

_INLINE_LENGTH, _LINE_LENGTH = 72, 120


COMPILED = "COMPILED"
"""The constant of a file that is false under the interpreter, which has no such instructions."""
_INSTRUCTIONS = {
    tt.WAIT: ("gdc_wait", "until the launches before have ended"),
    tt.RELEASE: ("gdc_launch_dependents", "the next launch may begin"),
}
OVERLAP_HEADER = (
    "from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait",
    "",
    f"{COMPILED} = tl.constexpr(not triton.knobs.runtime.interpret)",
)
"""What a file with such instructions begins with, after its imports."""
DESCRIPTOR_HEADER = (
    "",
    "# Descriptors are made by the kernels, in memory that Triton asks for.",
    'triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))',
)
"""What a file with loads by descriptor begins with, after its imports and that of torch."""

_LINES = (tt.LoadOp, tt.AtomicRMWOp, tt.MakeTensorDescOp, tt.DescriptorLoadOp)
"""What always gets a line of its own."""
_STRUCTURAL = (tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, arith.ConstantOp)


class KernelText:
    """Writes the body of a function; `arguments` are the parameters' names."""

    def __init__(self, func: tt.FuncOp, taken: frozenset[str]) -> None:
        self.names = Names(taken)
        self.lines: list[str] = []
        self.values = ValueText()
        self.depth = 1
        self.arguments = [self.names.fresh(argument.name_hint or "arg") for argument in func.body.block.args]
        for argument, name in zip(func.body.block.args, self.arguments, strict=True):
            self.values.known[argument] = variable(name, argument)
        self.block(func.body.block)

    def line(self, text: str, comment: str = "") -> None:
        self.lines.append("    " * self.depth + text + (f"  # {comment}" if comment else ""))

    def assign(self, name: str, expression: Expression, comment: str = "") -> None:
        """`name = expression`, a long call with an argument a line."""
        text = f"{name} = {expression.text}" if name else expression.text
        if len(text) + len(comment) + 4 * self.depth <= _LINE_LENGTH or not expression.call:
            self.line(text, comment)
            return
        self.line(f"{name} = {expression.call[0]}(" if name else f"{expression.call[0]}(", comment)
        for argument in expression.call[1:]:
            self.line(f"    {argument},")
        self.line(")")

    def block(self, block: Block) -> None:
        for op in block.ops:
            try:
                self.statement(op)
            except CleaveError as error:
                raise error if error.place else CleaveError(op, error.found, error.advice) from error

    def statement(self, op: Operation) -> None:
        match op:
            case scf.ForOp():
                self.loop(op)
            case scf.IfOp():
                self.condition(op)
            case gpu.BarrierOp():
                self.line("tl.debug_barrier()")
            case tt.InlineAsmOp():
                callee, comment = _INSTRUCTIONS[op.instruction]
                self.line(f"if {COMPILED}:")
                self.line(f"    {callee}()", comment)
            case tt.StoreOp():
                texts = [self.values.full(op.ptr).text, self.values.stripped(op.value).text]
                if op.mask is not None:
                    texts.append(f"mask={self.values.stripped(op.mask).text}")
                self.assign("", call("tl.store", texts))
            case tt.ReturnOp() | scf.YieldOp():
                pass
            case _ if isinstance(op, _STRUCTURAL):
                pass
            case _:
                self.value(op)

    def value(self, op: Operation) -> None:
        """Keeps the expression of an operation for its user, or gives it a line."""
        expression = self.values.expression(op)
        (result,) = op.results
        users = _users(result)
        if not users and not isinstance(op, tt.AtomicRMWOp):
            return
        alone = len(users) == 1 and users[0].parent is op.parent
        carried = alone and isinstance(users[0], scf.YieldOp)
        short = alone and len(expression.text) <= _INLINE_LENGTH and not isinstance(op, tt.DotOp)
        if isinstance(op, tt.MakeRangeOp) or ((carried or short) and not isinstance(op, _LINES)):
            self.values.known[result] = expression
            return
        name = self.names.fresh(result.name_hint or _hint(op))
        self.assign(name, expression, _comment(op))
        self.values.known[result] = variable(name, result)

    def loop(self, op: scf.ForOp) -> None:
        """A `for`, each carried value a variable that is assigned before and at the end of the body."""
        index, *inner = op.body.block.args
        names: list[str] = []
        for init, argument, result in zip(op.iter_args, inner, op.results, strict=True):
            name = self.names.fresh(argument.name_hint or "carried")
            self.assign(name, self.values.full(init), _dims_of(op, len(names)))
            names.append(name)
            self.values.known[argument] = self.values.known[result] = variable(name, argument)
        counter = self.names.fresh(index.name_hint or "i")
        self.values.known[index] = variable(counter, index)
        bounds = [self.values.stripped(value).text for value in (op.lb, op.ub, op.step)]
        dims = op.attributes.get("dims")
        if "tt.flatten" in op.attributes:
            bounds.append("flatten=True")
        callee = "tl.range" if "tt.flatten" in op.attributes else "range"
        self.line(f"for {counter} in {callee}({', '.join(bounds)}):", f"along {dims.data}" if isinstance(dims, StringAttr) else "")
        self.depth += 1
        before = len(self.lines)
        self.block(op.body.block)
        last = op.body.block.last_op
        assert isinstance(last, scf.YieldOp), "a loop ends in scf.yield"
        self.carry(names, [self.values.full(value) for value in last.operands], [_comment_of(value) for value in last.operands])
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def condition(self, op: scf.IfOp) -> None:
        """
        An `if`, each result a variable that is assigned before it and at the end of the body. Raises: CleaveError for one with an else
        branch that does more than yield.
        """
        kept = self.kept(op)
        names: list[str] = []
        for other, result in zip(kept, op.results, strict=True):
            expression = self.values.full(other)
            name = expression.text
            if not _is_spent(other, op) or expression.reads != frozenset((name,)) or name in names:
                name = self.names.fresh(result.name_hint or "kept")
                self.assign(name, expression, _comment_of(other))
            names.append(name)
        self.line(f"if {self.values.stripped(op.cond).text}:")
        self.depth += 1
        before = len(self.lines)
        block = op.true_region.block
        self.block(block)
        made = block.last_op.operands if isinstance(block.last_op, scf.YieldOp) else ()
        self.carry(names, [self.values.full(value) for value in made], [_comment_of(value) for value in made])
        for name, result in zip(names, op.results, strict=True):
            self.values.known[result] = variable(name, result)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def kept(self, op: scf.IfOp) -> Sequence[SSAValue]:
        """What an `if` gives where its body is not run. Raises: CleaveError where that is to be computed."""
        inner = [each for block in op.false_region.blocks for each in block.ops]
        if any(not isinstance(each, scf.YieldOp) for each in inner):
            raise CleaveError(op, "has an else branch that does more than yield, which has no Triton form here")
        return [value for each in inner for value in each.operands]

    def carry(self, names: Sequence[str], values: Sequence[Expression], comments: Sequence[str]) -> None:
        """Assigns the carried variables, each after the others' new values have read its old one."""
        pending = [entry for entry in zip(names, values, comments, strict=True) if entry[1].text != entry[0]]
        while pending:
            free = [
                position
                for position, (name, _, _) in enumerate(pending)
                if not any(name in value.reads for other, (_, value, _) in enumerate(pending) if other != position)
            ]
            if free:
                name, value, comment = pending.pop(free[0])
                self.assign(name, value, comment)
            else:
                name, value, comment = pending[0]
                held = self.names.fresh(f"{name}_next")
                self.assign(held, value, comment)
                pending[0] = (name, Expression(held, shape=value.shape, reads=frozenset((held,))), "")


def _users(value: SSAValue) -> list[Operation]:
    """The operations that read a value, looking through broadcasts; one that reads it twice occurs twice."""
    out: list[Operation] = []
    for use in value.uses:
        if isinstance(use.operation, _STRUCTURAL):
            out += _users(use.operation.results[0])
        else:
            out.append(use.operation)
    return out


def _is_spent(value: SSAValue, op: scf.IfOp) -> bool:
    """
    Whether a value made beside an `if` is read by nothing else, so that its variable may be assigned another; what has no line of its own
    is read with what it is made of.
    """
    while isinstance(value.owner, _STRUCTURAL) and value.owner.operands:
        value = value.owner.operands[0]
    beside = isinstance(value.owner, Operation) and value.owner.parent is op.parent
    return beside and all(op.is_ancestor(user) for user in _users(value))


def _comment(op: Operation) -> str:
    dims, note = op.attributes.get("dims"), op.attributes.get("note")
    parts = [f"[{dims.data}]"] if isinstance(dims, StringAttr) else []
    if isinstance(note, StringAttr):
        parts.append(" ".join(note.data.split()))
    return " ".join(parts)


def _comment_of(value: SSAValue) -> str:
    return _comment(value.owner) if isinstance(value.owner, Operation) else ""


def _dims_of(op: scf.ForOp, position: int) -> str:
    last = op.body.block.last_op
    return _comment_of(last.operands[position]) if last is not None else ""


def _hint(op: Operation) -> str:
    match op:
        case tt.CmpIOp() | tt.CmpFOp():
            return "where"
        case tt.AddPtrOp():
            return "at"
        case _ if isinstance(tt.element_of(op.results[0].type), IntegerType):
            return "i"
        case _:
            return "x"
