"""
What the programs of a kernel do, read off its tile statements.

Every statement is counted with the trips of its loops: bytes moved, operations of dots, exponentials, other elementwise work.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ..graph import ELEMENT_BYTES, FLOATS
from .hazards import reads
from .program import Buffer, Dot, For, Kernel, Last, Let, Load, Range, Reduce, Release, Statement, Store, Var, Wait, When
from .program import walk as statements_of
from .sizes import Sizes
from .targets import WARP_GROUP_ROWS

BYTES = {**ELEMENT_BYTES, "index": 4}
"""What an element takes in memory or registers, an index as much as an integer of 32 bits."""
EXPENSIVE = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "tanh",
    "sigmoid",
    "silu",
    "gelu",
    "gelu_tanh",
    "sin",
    "cos",
    "erf",
    "erfc",
    "rsqrt",
    "sqrt",
    "div",
    "pow",
)
BRANCHES = 0.5
"""The share of the steps of a loop that are taken to run a branch where it is not known."""
SECOND_READ = 0.25
"""What a second read of the same tile costs in cache traffic: most of it is still in the first-level cache."""
CAST, REDUCED, ADDRESSED = 0.5, 1.5, 0.25
"""The elementwise operations that a cast counts as, an element that is reduced, and the address of an element that is loaded."""
FEW_ROWS = 1.6
"""How much longer a dot takes that has too few rows for a warp-group instruction."""
LEAST_RUN = 64
"""The fewest bytes in a row that memory moves."""


@dataclass(slots=True)
class Counts:
    """What one program does; `reads` and `writes` are bytes by buffer."""

    dots: float = 0.0
    dots32: float = 0.0
    exps: float = 0.0
    work: float = 0.0
    shared: float = 0.0
    steps: float = 0.0
    reads: dict[str, float] = field(default_factory=lambda: {})
    writes: dict[str, float] = field(default_factory=lambda: {})


@dataclass(slots=True)
class Staged:
    """
    Bytes that one step of a block loads ahead: for warp-group dots (`wide`) and otherwise, by itself and in loops within.

    Loops one after another reuse each other's buffers, so the largest counts.
    """

    own: int = 0
    own_wide: int = 0
    inner: int = 0
    inner_wide: int = 0

    def add(self, size: int, wide: bool) -> None:
        """Counts a load of the block itself."""
        self.own += 0 if wide else size
        self.own_wide += size if wide else 0

    def enclose(self, loop: Staged) -> None:
        """Counts a loop within the block."""
        self.inner = max(self.inner, loop.own + loop.inner)
        self.inner_wide = max(self.inner_wide, loop.own_wide + loop.inner_wide)


class Measure:
    """
    One pass over a kernel's statements: counts, and which grid dimensions each buffer's accesses depend on.

    The pass follows the programs at `places` (0 first, 1 last) of every grid dimension, and counts are their averages; programs may
    have other trips along those that are `varying`, `longest` is the most `steps` of one, and `begun` how many loops one enters. Of loops
    with dots `stalled` steps wait, as they load what no dot reads. `descriptors` are the buffers that have one, `rows` the fewest of a dot.
    Ends of loops that are `guessed` are data. With `sorted` long programs come first; tiles that are run as is stored, along `ordered`, are
    taken to be numbered by their places, where the first load says which is run. `behind` is the largest tile, in bytes, loaded after
    accumulators, only to go with them. `last` is what the last of `arrivals` programs does besides; these are 0 without such work.
    """

    def __init__(self, kernel: Kernel, sizes: Sizes, places: tuple[float, ...] = (0.5,), ordered: str = "") -> None:
        self.kernel = kernel
        self.places = places
        self.steps = (0.0,) * len(places)
        self.begun = 0.0
        self.stalled = 0.0
        self.descriptors: set[str] = set()
        self.counts = Counts()
        self.last = Counts()
        self.arrivals = 0
        self.scalars: dict[int, tuple[int, ...]] = {}
        self.guessed: set[int] = set()
        self.sources: dict[int, frozenset[str]] = {}
        self.touches: dict[str, frozenset[str]] = {}
        self.flops = 0.0
        self.rows = float("inf")
        self.exact: list[tuple[int, int]] = []
        self.chained: dict[int, int] = {}
        self.seen: set[tuple[str | int, ...]] = set()
        self.staged = Staged()
        self.resident = 0
        self.carried = 0
        self.kept: set[tuple[tuple[str, int], ...]] = set()
        self.updated: set[int] = set()
        self.widest = 0
        self.behind = 0
        self.operands = _dot_operands(kernel.body)
        self.feeding = _feeding(kernel.body)
        self.streamed = _streamed(kernel.body)
        self.unique = _unique_bytes(kernel, sizes)
        self.ends = {axis: id(var) for axis, var in kernel.extents}
        for name, var in kernel.sizes:
            self.scalars[id(var)] = (sizes.hint(name) if name in sizes.extents else sizes.values[name],) * len(places)
        self.grid = {dim.dim: max(1, dim.count.evaluate(sizes.values)) for dim in kernel.grid}
        for dim in kernel.grid:
            count = self.grid[dim.dim]
            self.scalars[id(dim.start)] = tuple(min(int(count * place), count - 1) * dim.tile for place in places)
            self.sources[id(dim.start)] = frozenset((dim.dim,))
            if dim.dim == ordered:
                first = next(statement for statement in kernel.body if isinstance(statement, Load))
                self.scalars[id(first.out)] = tuple(start // dim.tile for start in self.scalars[id(dim.start)])
        self.varying: frozenset[str] = frozenset()
        self.sorted = False
        self.within = (1.0,) * len(places)
        self.conditions: dict[int, Let] = {}
        self.walked: tuple[For, tuple[int, ...], tuple[int, ...]] | None = None
        self.body(kernel.body, 1.0, False)
        self.longest = max(self.steps)

    @property
    def varies(self) -> bool:
        """Whether programs may have different trips."""
        return bool(self.varying)

    @property
    def uneven(self) -> float:
        """How many times longer than the average the longest program is."""
        return max(1.0, self.longest / self.counts.steps) if self.varies and self.counts.steps else 1.0

    def _from(self, args: Sequence[Var]) -> frozenset[str]:
        out: frozenset[str] = frozenset()
        for arg in args:
            found = self.sources.get(id(arg))
            if found:
                out = out | found
        return out

    def body(self, body: Sequence[Statement], trips: float, looped: bool) -> None:
        for statement in body:
            match statement:
                case Let():
                    self._let(statement, trips)
                case Range(out=out, start=start):
                    self.sources[id(out)] = self._from((start,))
                    if id(start) in self.scalars:
                        middle = out.type.dims[0][1] // 2
                        self.scalars[id(out)] = tuple(value + middle for value in self.scalars[id(start)])
                case Load():
                    self._load(statement, trips, looped)
                case Store(buffer=buffer, index=index, value=value):
                    sizes = dict(entry for _, var in index for entry in var.type.dims)
                    amount = _moved(buffer, index, prod(sizes.values())) * trips
                    self.counts.writes[buffer.name] = self.counts.writes.get(buffer.name, 0.0) + amount
                    self.counts.work += _elements(value) * trips
                case Reduce(out=out, value=value):
                    if id(value) in self.scalars:
                        self.scalars[id(out)] = self.scalars[id(value)]
                        self.sources[id(out)] = self._from((value,))
                    self.counts.work += REDUCED * _elements(value) * trips
                case Dot(a=a, b=b, out=out, acc=acc):
                    self._dot(a, b, out, acc, trips)
                case For():
                    self._loop(statement, trips)
                case When():
                    self._branch(statement)
                case Last():
                    self.arrivals = max(1, *self.scalars.get(id(statement.count), (1,)))
                    every, self.counts, steps = self.counts, self.last, self.steps
                    self.body(statement.body, trips, False)
                    self.counts, self.steps = every, steps
                case Wait() | Release():
                    pass

    def _let(self, op: Let, trips: float) -> None:
        if op.out.type.dtype == "index":
            # Index tiles stand for the element in their middle.
            self.sources[id(op.out)] = self._from(op.args)
            if any(id(arg) in self.guessed for arg in op.args):
                self.guessed.add(id(op.out))
            known = [values for arg in op.args if (values := self.scalars.get(id(arg))) is not None]
            if op.kind == "constant":
                self.scalars[id(op.out)] = (int(op.attr[0]),) * len(self.places)
            elif len(known) == len(op.args):
                each = zip(zip(*known, strict=True), self.places, strict=True)
                self.scalars[id(op.out)] = tuple(_integer(op.kind, values, place) for values, place in each)
            elif known and op.kind in ("min", "max"):
                # Beside a bound that is only known when the program runs, the other holds: loops count as whole.
                self.scalars[id(op.out)] = known[0]
                self.guessed.add(id(op.out))
            if not op.out.type.dims:
                return
        if op.out.type.dtype == "i64":
            self.sources[id(op.out)] = self._from(op.args)
        if op.kind in ("constant", "broadcast"):
            return
        if op.out.type.dtype == "i1":
            self.conditions[id(op.out)] = op
        if op.kind == "add" and all(id(arg) in self.chained for arg in op.args):
            # Chains of one sum: the next begins when the last is added, and takes its place.
            kept, done = (self.chained[id(arg)] for arg in op.args)
            self.exact[done] = (0, self.exact[done][1])
            self.chained[id(op.out)] = kept
        size = _elements(op.out) * trips
        if op.kind in EXPENSIVE:
            self.counts.exps += size
        self.counts.work += size * (CAST if op.kind == "cast" else 1.0)
        if op.out.type.dims in self.kept and any(id(arg) in self.updated for arg in op.args):
            self.updated.add(id(op.out))
            return
        if self.carried and id(op.out) in self.streamed:
            return
        if op.out.type.dtype in FLOATS:
            self.widest = max(self.widest, _elements(op.out) * BYTES[op.out.type.dtype])
        elif op.kind == "select" and op.out.type.dtype in ("i32", "i64"):
            # Integers are mostly indices, which are not kept; those that a mask selects are, and what they are selected from.
            self.widest = max(self.widest, 2 * _elements(op.out) * BYTES[op.out.type.dtype])

    def _load(self, op: Load, trips: float, looped: bool) -> None:
        amount = 0 if self._is_past_the_end(op) else _moved(op.buffer, op.index, _elements(op.out))
        place = (op.buffer.name, *(id(var) for _, var in op.index))
        share = SECOND_READ if place in self.seen else 1.0
        self.seen.add(place)
        self.counts.reads[op.buffer.name] = self.counts.reads.get(op.buffer.name, 0.0) + amount * trips * share
        used = self._from([var for _, var in op.index])
        self.touches[op.buffer.name] = self.touches.get(op.buffer.name, frozenset()) | used
        if op.out.type.dtype in ("i32", "i64", "index"):
            self.sources[id(op.out)] = used
        if op.descriptor:
            self.descriptors.add(op.buffer.name)
        else:
            self.counts.work += _elements(op.out) * trips * ADDRESSED
        size = _elements(op.out) * BYTES[op.buffer.dtype]
        wide = self.operands.get(id(op.out))
        if wide is None and self.carried and id(op.out) in self.streamed:
            self.behind = max(self.behind, size)
        elif wide is None:
            self.widest = max(self.widest, size)
        if looped:
            self.staged.add(size, bool(wide))
        elif wide is not None:
            self.resident += size

    def _is_past_the_end(self, op: Load) -> bool:
        """Whether a load reads nothing: a number of its index is not below the extent that it is checked against."""
        for axis, var in op.index if op.check else ():
            end = self.scalars.get(self.ends.get(axis, 0)) if axis in op.check and not var.type.dims else None
            if end is not None and id(var) in self.scalars and all(at >= stop for at, stop in zip(self.scalars[id(var)], end, strict=True)):
                return True
        return False

    def _dot(self, a: Var, b: Var, out: Var, acc: Var | None, trips: float) -> None:
        rows, columns = (size for _, size in out.type.dims[-2:])
        over = a.type.dims[-1][1]
        flops = 2.0 * rows * columns * over * trips
        self.rows = min(self.rows, rows)
        self.flops += flops
        if a.type.dtype == "f32":
            self.counts.dots32 += flops
            self.chained[id(out)] = len(self.exact)
            self.exact.append((rows * columns, over))
        else:
            self.counts.dots += flops * (1.0 if rows >= WARP_GROUP_ROWS else FEW_ROWS)
        width = BYTES[a.type.dtype]
        self.counts.shared += (rows * over + over * columns * max(1, rows // WARP_GROUP_ROWS)) * width * trips
        if acc is None or id(acc) not in self.updated:
            self.widest = max(self.widest, _elements(out) * 4)
        else:
            self.updated.add(id(out))

    def _loop(self, op: For, trips: float) -> None:
        unknown = (0,) * len(self.places)
        starts, stops = self.scalars.get(id(op.start), unknown), self.scalars.get(id(op.stop), unknown)
        self.varying = self.varying | self._from((op.start, op.stop))
        counts = tuple(max(0, -(-(stop - start) // op.step)) for start, stop in zip(starts, stops, strict=True))
        self.scalars[id(op.index)] = tuple(start + (count // 2) * op.step for start, count in zip(starts, counts, strict=True))
        unsure = id(op.start) in self.guessed or id(op.stop) in self.guessed
        self.begun += sum(before for before, count in zip(self.within, counts, strict=True) if count or unsure) / len(self.places)
        # What is carried stays in registers to the end, and updates happen in place.
        self.kept.update(entry.inner.type.dims for entry in op.carried)
        self.updated.update(id(var) for entry in op.carried for var in (entry.inner, entry.out))
        self.carried = max(self.carried, sum(_elements(entry.inner) * max(4, BYTES[entry.inner.type.dtype]) for entry in op.carried))
        outer, self.within = self.within, tuple(before * count for before, count in zip(self.within, counts, strict=True))
        average = sum(self.within) / len(self.places)
        self.steps = tuple(before + more for before, more in zip(self.steps, self.within, strict=True))
        self.counts.steps += average
        loads = [each for each in op.body if isinstance(each, Load) and id(each.out) not in self.feeding]
        if loads and any(isinstance(each, Dot) for each in op.body):
            self.stalled += max(self.within)
        outside, self.staged = self.staged, Staged()
        around, self.walked = self.walked, (op, starts, counts)
        self.body(op.body, average, True)
        outside.enclose(self.staged)
        self.staged, self.within, self.walked = outside, outer, around

    def _branch(self, op: When) -> None:
        """Counts the body for the steps that run it; what it loads is not loaded ahead."""
        shares = self._shares(op.condition) or (BRANCHES,) * len(self.places)
        outer, self.within = self.within, tuple(before * share for before, share in zip(self.within, shares, strict=True))
        self.body(op.body, sum(self.within) / len(self.places), False)
        self.within = outer
        for entry in op.results:
            self.sources[id(entry.out)] = self._from((entry.value, entry.other))

    def _shares(self, condition: Var) -> tuple[float, ...] | None:
        """
        In how many of the steps of the loop around a condition is true, as a share, for each sampled program: one that compares the step
        with a known index, or says that either of two such is true, which are taken to exclude each other.
        """
        match self.conditions.get(id(condition)):
            case Let(kind="or", args=args):
                each = [self._shares(arg) for arg in args]
                known = [shares for shares in each if shares is not None]
                return tuple(min(1.0, sum(both)) for both in zip(*known, strict=True)) if len(known) == len(each) else None
            case Let(kind="compare", args=(index, end), attr=("lt" | "ge" as side,)) if self.walked is not None:
                loop, starts, counts = self.walked
                ends = self.scalars.get(id(end))
                if index is not loop.index or ends is None or id(end) in self.guessed:
                    return None
                shares: list[float] = []
                for first, count, stop in zip(starts, counts, ends, strict=True):
                    below = min(count, max(0, -(-(stop - first) // loop.step)))
                    shares.append((below if side == "lt" else count - below) / max(1, count))
                return tuple(shares)
            case _:
                return None


def measure(kernel: Kernel, sizes: Sizes, ordered: str = "") -> Measure:
    """A kernel's counts, averaged over programs where their trips differ. Along a grid dimension `ordered` the longest come first."""
    out = Measure(kernel, sizes, ordered=ordered)
    if out.varies:
        samples = Measure(kernel, sizes, (0.0, 0.25, 0.5, 0.75, 1.0), ordered)
        if min(samples.steps) == samples.longest:
            # What the ends of loops depend on is data: nothing is known of how programs differ.
            out.varying = frozenset()
            return out
        out.counts, out.flops, out.longest, out.begun = samples.counts, samples.flops, samples.longest, samples.begun
        falling = all(before >= after for before, after in itertools.pairwise(samples.steps))
        out.sorted = bool(ordered) or (falling and len(out.varying) == 1 and kernel.grid[-1].dim in out.varying)
    return out


def _moved(buffer: Buffer, index: Sequence[tuple[str, Var]], elements: int) -> int:
    """Bytes that memory moves for so many elements: at least `LEAST_RUN` for each run of elements that lie together."""
    amount = elements * BYTES[buffer.dtype]
    places = zip(index, _strides(buffer, index), strict=True)
    together = [prod(size for _, size in var.type.dims) for (_, var), stride in places if stride == 1]
    run = max(together, default=0) * BYTES[buffer.dtype]
    return amount * LEAST_RUN // run if 0 < run < LEAST_RUN else amount


def _strides(buffer: Buffer, index: Sequence[tuple[str, Var]]) -> list[int | None]:
    table = dict(zip(buffer.axes, buffer.strides, strict=True))
    return [table[axis] for axis, _ in index]


def _elements(var: Var) -> int:
    out = 1
    for _, size in var.type.dims:
        out *= size
    return out


def _integer(kind: str, args: Sequence[int], place: float) -> int:
    a, b = args[0], args[-1]
    match kind:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "floordiv":
            return a // b if b else 0
        case "mod":
            # The remainder of one sampled number says little: sample the remainders likewise.
            return a if a < b else min(int(b * place), max(0, b - 1))
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case _:
            return a


def _dot_operands(body: Sequence[Statement]) -> dict[int, bool]:
    """The variables that reach a dot unchanged or by a reorder, and whether the dot has the rows of a warp-group instruction."""
    made: dict[int, Statement] = {}
    wanted: list[tuple[Var, bool]] = []

    def scan(part: Sequence[Statement]) -> None:
        for statement in part:
            match statement:
                case For(body=inner) | When(body=inner) | Last(body=inner):
                    scan(inner)
                case Dot(a=a, b=b, out=out):
                    wide = out.type.dims[-2][1] >= WARP_GROUP_ROWS
                    wanted.extend(((a, wide), (b, wide)))
                case Let(out=out):
                    made[id(out)] = statement
                case _:
                    pass

    scan(body)
    out: dict[int, bool] = {}
    while wanted:
        var, wide = wanted.pop()
        out[id(var)] = wide or out.get(id(var), False)
        maker = made.get(id(var))
        if isinstance(maker, Let) and maker.kind == "broadcast":
            wanted.extend((arg, wide) for arg in maker.args)
    return out


def _feeding(body: Sequence[Statement]) -> frozenset[int]:
    """The variables that dots read, as they are or computed from."""
    made: dict[int, tuple[Var, ...]] = {}
    for statement in statements_of(tuple(body)):
        if isinstance(statement, Let):
            made[id(statement.out)] = statement.args
        elif isinstance(statement, When):
            made |= {id(entry.out): (statement.condition, entry.value, entry.other) for entry in statement.results}
    pending = [side for statement in statements_of(tuple(body)) if isinstance(statement, Dot) for side in (statement.a, statement.b)]
    out: set[int] = set()
    while pending:
        var = pending.pop()
        if id(var) not in out:
            out.add(id(var))
            pending += made.get(id(var), ())
    return frozenset(out)


def _streamed(body: Sequence[Statement]) -> frozenset[int]:
    """
    The values after the last loop that are loaded, or made element by element, and so used: what follows an accumulator is computed for
    a few of its elements at a time.
    """
    loops = [place for place, statement in enumerate(body) if isinstance(statement, For)]
    tail = body[loops[-1] + 1 :] if loops else ()
    users: dict[int, list[Statement]] = {}
    for statement in statements_of(tuple(tail)):
        for var in reads(statement):
            users.setdefault(id(var), []).append(statement)
    out: set[int] = set()
    for statement in tail:
        if isinstance(statement, Load) or (isinstance(statement, Let) and statement.kind != "broadcast"):
            own = users.get(id(statement.out), ())
            if all(isinstance(user, Store) or (isinstance(user, Let) and user.out.type.dims == statement.out.type.dims) for user in own):
                out.add(id(statement.out))
    return frozenset(out)


def _unique_bytes(kernel: Kernel, sizes: Sizes) -> dict[str, float]:
    counters = {statement.counter.name for statement in statements_of(kernel.body) if isinstance(statement, Last)}
    moved = [buffer for buffer in kernel.buffers if buffer.name not in counters]
    return {buffer.name: float(sizes.hint_product(buffer.axes) * BYTES[buffer.dtype]) for buffer in moved}
