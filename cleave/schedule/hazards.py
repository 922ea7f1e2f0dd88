"""
What Triton's compiler gets wrong, as rules on tile programs.

Two uses of a load. In a pipelined loop a load that feeds a warp-group dot and register code has as many buffers as the register
code needs, one fewer than the dot: its tile may be overwritten while the dot reads it. So it is where the other use is a dot of fewer
rows, whose operands pass through registers. `separated` gives the dots of each kind a load of their own, under another cache hint, as
equal loads are merged. Seen with Triton 3.6; 3.9 has the same number of buffers.

Products of registers. A dot of at least 64 rows runs on Hopper as warp-group instructions of 16 summed elements each. Where
its left operand is made in registers within the loop, and its result is nothing but the start of the next iteration's dot,
Triton leaves all instructions but one of an iteration running when the next one makes its operand (`warp_group_dot_wait` with
`pendings` = instructions - 1), and ptxas of CUDA 12 gives that the same registers: the instructions read what they should not.
Found by disassembly of what Triton 3.6 makes of `x * g * r` times `w` in tiles of 64 or 128 rows, 64 to 256 columns, 4 or 8 warps:

    summed elements    16    32    64    128
    1 stage             0     0     0      0     of 11 kernels each overwrite operands of running instructions
    2, 3 or 4 stages    0     6     7      5

none of Triton 3.9, which assembles with CUDA 13. A dot whose result anything else in the loop uses is waited for, as are those whose
accumulator is rescaled. So `apart` adds the product to the accumulator in an operation of its own.
Sources: triton-lang/triton issues 9433 and 11781, pull request 8554; release notes of CUDA 13.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from ..runtime.versions import triton_version
from .program import Dot, For, Kernel, Last, Let, Load, Reduce, Release, Statement, Store, Var, Wait, When, walk
from .targets import WARP_GROUP_ROWS, Target

WAITS_SINCE = (3, 9)
"""The first version of Triton whose assembler keeps operands of running instructions."""
STEP = 16
"""Summed elements of a warp-group instruction."""
SEPARATE = ("evict_last", "evict_first")
"""Cache hints that tell apart loads of the same."""
Use: TypeAlias = Literal["registers", "dot", "warp-group dot"]
USES: tuple[Use, ...] = ("registers", "dot", "warp-group dot")


def reads(statement: Statement) -> tuple[Var, ...]:
    """The values that a statement reads itself, not those within its body."""
    match statement:
        case Let(args=args):
            return args
        case Dot(a=a, b=b, acc=acc):
            return (a, b) if acc is None else (a, b, acc)
        case Reduce(value=value):
            return (value,)
        case Store(index=index, value=value):
            return (*(var for _, var in index), value)
        case Load(index=index):
            return tuple(var for _, var in index)
        case For(start=start, stop=stop, carried=carried):
            return (start, stop, *(entry.init for entry in carried), *(entry.next for entry in carried))
        case When(condition=condition, results=chosen):
            return (condition, *(var for entry in chosen for var in (entry.value, entry.other)))
        case Last(index=index, count=count):
            return (*(var for _, var in index), count)
        case Wait() | Release():
            return ()
        case _:
            return (statement.start,)


def uses_of(body: Sequence[Statement]) -> dict[int, list[Statement]]:
    """By value the statements that read it; what stands within one counts as that one."""
    out: dict[int, list[Statement]] = {}
    for statement in body:
        for var in (var for each in walk((statement,)) for var in reads(each)):
            out.setdefault(id(var), []).append(statement)
    return out


def changed(body: Sequence[Statement], change: Callable[[For], Sequence[Statement]]) -> tuple[Statement, ...]:
    """The statements with another body for each loop, inner loops first."""
    out: list[Statement] = []
    for statement in body:
        if isinstance(statement, For | When | Last):
            statement = replace(statement, body=changed(statement.body, change))
        if isinstance(statement, For):
            statement = replace(statement, body=tuple(change(statement)))
        out.append(statement)
    return tuple(out)


def separated(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements with a further load for each kind of dots that read, in a loop, what register code or the other kind reads too."""
    return changed(body, _separated)


def _separated(loop: For) -> Sequence[Statement]:
    users = uses_of(loop.body)
    twins: dict[tuple[int, Use], Var] = {}
    out: list[Statement] = []
    for statement in loop.body:
        if isinstance(statement, Load) and not statement.eviction:
            _, *more = uses(statement.out, users) or USES[:1]
            out.append(statement)
            for use, hint in zip(more, SEPARATE, strict=False):
                twins[id(statement.out), use] = twin = Var(statement.out.name, statement.out.type, statement.out.note)
                out.append(replace(statement, out=twin, eviction=hint))
            continue
        if isinstance(statement, Let) and statement.kind == "broadcast":
            source, (first, *more) = statement.args[0], uses(statement.out, users) or USES[:1]
            out.append(replace(statement, args=(twins.get((id(source), first), source),)))
            for use in more:
                if (id(source), use) in twins:
                    twins[id(statement.out), use] = twin = Var(statement.out.name, statement.out.type, statement.out.note)
                    out.append(replace(statement, out=twin, args=(twins[id(source), use],)))
            continue
        if isinstance(statement, Dot):
            use = _use(statement)
            a, b = (twins.get((id(side), use), side) for side in (statement.a, statement.b))
            statement = replace(statement, a=a, b=b)
        out.append(statement)
    return out


def _use(dot: Dot) -> Use:
    """How a dot takes what it multiplies."""
    wide = dot.out.type.dims[-2][1] >= WARP_GROUP_ROWS and dot.a.type.dtype in ("f16", "bf16")
    return "warp-group dot" if wide else "dot"


def uses(var: Var, users: dict[int, list[Statement]]) -> tuple[Use, ...]:
    """What reads a value as it is or with its dimensions in another order."""
    found: set[Use] = set()
    for user in users.get(id(var), ()):
        if isinstance(user, Dot) and user.acc is not var:
            found.add(_use(user))
        elif isinstance(user, Let) and user.kind == "broadcast":
            found.update(uses(user.out, users))
        else:
            found.add("registers")
    return tuple(use for use in USES if use in found)


def is_affected(target: Target, triton: tuple[int, int] | None = None) -> bool:
    """Whether a version of Triton, the installed one by default, overwrites operands in registers on a machine."""
    return target.capability[:2] == ("cuda", "90") and (triton or triton_version()) < WAITS_SINCE


def mended(kernel: Kernel, target: Target, triton: tuple[int, int] | None = None) -> Kernel:
    """A kernel that a machine runs as it is written, with a version of Triton, the installed one by default."""
    return apart(kernel) if is_affected(target, triton) else kernel


def overwritten(kernel: Kernel) -> tuple[Dot, ...]:
    """The dots whose left operand may be overwritten while they run, where the kernel has more than one stage."""
    found: list[Dot] = []

    def collect(loop: For) -> Sequence[Statement]:
        found.extend(_unsafe(loop))
        return loop.body

    changed(kernel.body, collect)
    return tuple(found)


def _unsafe(loop: For) -> list[Dot]:
    made = {id(var): statement for statement in loop.body for var in results(statement)}
    carried = {id(entry.inner): id(entry.next) for entry in loop.carried}
    users = uses_of(loop.body)
    out: list[Dot] = []
    for dot in loop.body:
        if not isinstance(dot, Dot) or dot.a.type.dtype not in ("f16", "bf16"):
            continue
        (_, rows), (_, over) = dot.a.type.dims[-2:]
        maker = made.get(id(dot.a))
        while isinstance(maker, Let) and maker.kind == "broadcast":
            maker = made.get(id(maker.args[0]))
        registers = maker is not None and not isinstance(maker, Load)
        if rows >= WARP_GROUP_ROWS and over > STEP and registers and _runs_on(dot, made, carried, users):
            out.append(dot)
    return out


def results(statement: Statement) -> tuple[Var, ...]:
    """The values that a statement makes for those after it."""
    match statement:
        case Store() | Last() | Wait() | Release():
            return ()
        case For(carried=carried):
            return tuple(entry.out for entry in carried)
        case When(results=chosen):
            return tuple(entry.out for entry in chosen)
        case _:
            return (statement.out,)


def _runs_on(dot: Dot, made: dict[int, Statement], carried: dict[int, int], users: dict[int, list[Statement]]) -> bool:
    """Whether a dot of a loop starts from a carried tile or another such dot, and is nothing but the next start."""
    start: Var | None = dot.acc
    while start is not None and id(start) not in carried:
        maker = made.get(id(start))
        start = maker.acc if isinstance(maker, Dot) else None
    readers = [user for user in users.get(id(dot.out), ()) if not (isinstance(user, Dot) and user.acc is dot.out)]
    return start is not None and not readers


def apart(kernel: Kernel) -> Kernel:
    """The kernel with those products of registers added to their accumulators in operations of their own, so that they are waited for."""
    unsafe = {id(dot) for dot in overwritten(kernel)}
    if not unsafe:
        return kernel

    def change(loop: For) -> Sequence[Statement]:
        out: list[Statement] = []
        for statement in loop.body:
            if isinstance(statement, Dot) and id(statement) in unsafe:
                assert statement.acc is not None, "it has a start"
                product = Var("product", statement.out.type)
                out.append(replace(statement, out=product, acc=None))
                out.append(Let(statement.out, "add", (statement.acc, product)))
            else:
                out.append(statement)
        return out

    return replace(kernel, body=changed(kernel.body, change))
