"""
The body of one `tt.func` as Triton Python.

A value is written where it is used if that is once, in the same body, and short; else it gets a line, its name from the IR
and a comment with its dimensions. Splats, broadcasts and new axes never get a line: Triton broadcasts by itself, and where
that would give another shape than the IR says, one operand is broadcast explicitly. Loads always get a line, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, gpu, scf
from xdsl.dialects.builtin import (
    Float32Type,
    IntegerType,
    StringAttr,
)
from xdsl.ir import Block, Operation, SSAValue

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
    variable,
)
from cleave.targets.names import Names

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
_LINES = (tt.LoadOp, tt.AtomicRMWOp, tt.MakeTensorDescOp, tt.DescriptorLoadOp)
"""What always gets a line of its own."""
_STRUCTURAL = (tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, arith.ConstantOp)


class KernelText:
    """Writes the body of a function; `arguments` are the parameters' names."""

    def __init__(self, func: tt.FuncOp, taken: frozenset[str]) -> None:
        self.names = Names(taken)
        self.lines: list[str] = []
        self.known: dict[SSAValue, Expression] = {}
        self.depth = 1
        self.arguments = [self.names.fresh(argument.name_hint or "arg") for argument in func.body.block.args]
        for argument, name in zip(func.body.block.args, self.arguments, strict=True):
            self.known[argument] = variable(name, argument)
        self.block(func.body.block)

    # Statements

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
                texts = [self.full(op.ptr).text, self.stripped(op.value).text]
                if op.mask is not None:
                    texts.append(f"mask={self.stripped(op.mask).text}")
                self.assign("", call("tl.store", texts))
            case tt.ReturnOp() | scf.YieldOp():
                pass
            case _ if isinstance(op, _STRUCTURAL):
                pass
            case _:
                self.value(op)

    def value(self, op: Operation) -> None:
        """Keeps the expression of an operation for its user, or gives it a line."""
        expression = self.expression(op)
        (result,) = op.results
        users = _users(result)
        if not users and not isinstance(op, tt.AtomicRMWOp):
            return
        alone = len(users) == 1 and users[0].parent is op.parent
        carried = alone and isinstance(users[0], scf.YieldOp)
        short = alone and len(expression.text) <= _INLINE_LENGTH and not isinstance(op, tt.DotOp)
        if isinstance(op, tt.MakeRangeOp) or ((carried or short) and not isinstance(op, _LINES)):
            self.known[result] = expression
            return
        name = self.names.fresh(result.name_hint or _hint(op))
        self.assign(name, expression, _comment(op))
        self.known[result] = variable(name, result)

    def loop(self, op: scf.ForOp) -> None:
        """A `for`, each carried value a variable that is assigned before and at the end of the body."""
        index, *inner = op.body.block.args
        names: list[str] = []
        for init, argument, result in zip(op.iter_args, inner, op.results, strict=True):
            name = self.names.fresh(argument.name_hint or "carried")
            self.assign(name, self.full(init), _dims_of(op, len(names)))
            names.append(name)
            self.known[argument] = self.known[result] = variable(name, argument)
        counter = self.names.fresh(index.name_hint or "i")
        self.known[index] = variable(counter, index)
        bounds = [self.stripped(value).text for value in (op.lb, op.ub, op.step)]
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
        self.carry(names, [self.full(value) for value in last.operands], [_comment_of(value) for value in last.operands])
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
            expression = self.full(other)
            name = expression.text
            if not _is_spent(other, op) or expression.reads != frozenset((name,)) or name in names:
                name = self.names.fresh(result.name_hint or "kept")
                self.assign(name, expression, _comment_of(other))
            names.append(name)
        self.line(f"if {self.stripped(op.cond).text}:")
        self.depth += 1
        before = len(self.lines)
        block = op.true_region.block
        self.block(block)
        made = block.last_op.operands if isinstance(block.last_op, scf.YieldOp) else ()
        self.carry(names, [self.full(value) for value in made], [_comment_of(value) for value in made])
        for name, result in zip(names, op.results, strict=True):
            self.known[result] = variable(name, result)
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

    # Values

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
