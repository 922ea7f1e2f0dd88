"""
What a kernel costs.

Time is the largest of what each unit needs, what the memory system needs, and the latency of the programs that one
multiprocessor runs one after another. The model is meant to rank plans; its figures are estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from .measure import Measure
from .raster import covered
from .targets import WARP_GROUP_ROWS, Target

SHARED_RATE = 200e9
LATENCY = 0.9e-6
STEP = 0.12e-6
STALL = 0.3e-6
"""
What a step of a loop with dots waits for loads that feed none of them, which Triton does not load ahead, in seconds: what a sum of squares
beside a product took on one H200.
"""
DESCRIBE = 0.5e-6
"""What making a descriptor costs a program at least, before its first load, in seconds; pairs of kernels on one H200: 0.5 to 2 us."""
OVERLAP_LOSS, ONE_GROUP, SEVERAL_BLOCKS = 0.85, 0.55, -0.1
TOO_FEW_ROWS, TWO_STAGES, BOXED = 1.5, 0.5, 0.15
"""
The share of the lesser of dots and vector work that the other does not hide. More of it where a multiprocessor has one warp group at once,
where a warp-group dot has fewer rows than its warps take, so that they exchange what is reduced, where the next loads begin only when a
step ends, and where all warps wait for one copy; less where blocks take turns. Fitted by hand to 122 timed kernels, most with exponentials.
"""
WARP_GROUP, ROWS_PER_WARP = 4, 16
"""Warps of a warp group, and the rows of a dot that each of them makes."""
VECTOR_LOSS = 0.3
"""The share of the lesser of exponentials and other elementwise work that the other does not hide."""
UNHIDDEN = 0.1
"""The share of what all but the slowest of units, memory, cache and latency need that the slowest does not hide."""
CACHED = 0.7
"""The part of the second-level cache that holds what is read until it is read again."""
UNEVEN_TAIL = 0.5
"""The share of the longest program beyond the average that multiprocessors wait for at the end, where long programs may come last."""
START = 1.5e-6
"""What it takes until the programs of a wave are under way, in seconds."""
REPLAY = 2.6e-6
"""What replaying a captured graph costs beyond the launches in it, in seconds."""
ARRIVE = 2.0e-6
"""What a barrier and an atomic operation on memory that other multiprocessors use cost the last program to arrive, in seconds."""
LAST_STEP = 0.5e-6
"""What a step of the last program's loops takes beyond its bytes: it waits for loads from the second-level cache, in seconds."""
MOST_REGISTERS = 255
"""Registers of a thread."""
LEAST_SHARE, UNIT, THREADS = 0.75, 8, 2048
"""The least part of what a thread seems to need that its registers are bounded to, of what bounds are multiples, and the most threads."""
HELD = 1.5
"""Bytes of registers that a program is taken to need at once for each byte of its widest tile, beside what loops carry."""
SPILLED = 1.5
"""What exact dots that spill count as, as a multiple of the registers there are."""
FEW_REGISTERS = 32
"""Registers of a thread for addresses and the like."""
SLACK, RESERVED = 2048, 1024
"""Bytes of shared memory that an estimate has beyond tiles, for what reductions exchange, and that a multiprocessor takes for a block."""
LAST_REGISTERS = 32
"""Registers that work after such an operation takes beyond what it needs by itself: addresses and sizes stay alive for it."""
TURN_REGISTERS = 24
"""Registers for where the next tile of a persistent program is while the one before is stored."""
TURN_SHARED = 0.5
"""
Bytes of shared memory for each pair of threads through which such a program stores a tile, beside what is loaded ahead for the next, as
fitted to what Triton's compiler reports for products of many tile sizes on sm_90.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """
    The estimate for one kernel.

    Units: seconds; bytes from memory and through the second-level cache; operations; registers a thread; bytes of shared memory.
    """

    seconds: float
    memory_bytes: float
    cache_bytes: float
    flops: float
    dot_flops: float
    programs: int
    waves: int
    registers: int
    shared: int
    bound: str

    def __str__(self) -> str:
        return (
            f"{self.seconds * 1e6:.2f} us, bound by {self.bound}: {self.memory_bytes / 1e6:.2f} MB, {self.flops / 1e9:.3f} GFLOP, "
            f"{self.programs} programs in {self.waves} waves, {self.registers} registers, {self.shared / 1024:.0f} KiB shared"
        )


@dataclass(frozen=True, slots=True)
class Resources:
    """Registers a thread of a kernel needs, bytes of shared memory of a block, and whether its exact dots spill."""

    registers: int
    shared: int
    spills: bool

    def fit(self, target: Target) -> bool:
        """Whether the machine has as much."""
        return self.share(target) <= 1.0

    def share(self, target: Target) -> float:
        """The largest of the needs, as a multiple of what there is."""
        return max(self.registers / MOST_REGISTERS, self.shared / target.shared, SPILLED if self.spills else 0.0)

    def spelled(self, target: Target) -> str:
        """What there is too little of, for people."""
        said = [
            *([f"{self.registers} registers a thread of {MOST_REGISTERS}"] if self.registers > MOST_REGISTERS else []),
            *([f"{self.shared} bytes of shared memory of {target.shared}"] if self.shared > target.shared else []),
            *(["more operands of exact dots than registers hold"] if self.spills else []),
        ]
        return f"its smallest kernel needs {' and '.join(said)}"


def resources(walk: Measure, num_warps: int, num_stages: int, target: Target, most: int = 0) -> Resources:
    """What a measured kernel needs of a machine at these warps and stages; a thread has at most so many registers, if that is not 0."""
    threads = num_warps * target.warp
    held = int((walk.carried + max(HELD * walk.widest, walk.behind)) / 4 / threads)
    registers = held + FEW_REGISTERS + (LAST_REGISTERS if walk.arrivals else 0)
    # Triton pipelines what a warp-group dot reads in as many buffers as stages, everything else in one fewer.
    ahead = max(1, num_stages - 1)
    wide = num_stages if target.capability[1] in ("90", "100") else ahead
    shared = walk.staged.inner_wide * wide + walk.staged.inner * ahead + walk.resident + SLACK
    if walk.kernel.persistent:
        registers += TURN_REGISTERS
        shared += int(min(max(walk.counts.writes.values(), default=0.0), TURN_SHARED * threads**2))
    return Resources(min(registers, most or registers), shared, _spills(walk.exact, threads))


def register_bound(needed: Resources, carried: int, num_warps: int, target: Target) -> int:
    """
    The most registers of a thread with which one more program runs at once on a multiprocessor, 0 where it has no room for another, or
    these are so few that some would spill: a loop carries so many bytes, and a warp-group dot holds its whole result at once.
    """
    threads = num_warps * target.warp
    more = target.registers // (threads * needed.registers) + 1
    most = target.registers // (threads * more) // UNIT * UNIT
    room = more <= by_shared(needed.shared, target) and more * threads <= THREADS
    least = max(LEAST_SHARE * needed.registers, carried / 4 / threads + FEW_REGISTERS)
    return most if room and least <= most < needed.registers else 0


def by_shared(shared: int, target: Target) -> int:
    """How many blocks of so many bytes of shared memory a multiprocessor holds: it has what one may use, and what it takes for one."""
    return (target.shared + RESERVED) // max(1, shared - SLACK + RESERVED)


def resident(needed: Resources, num_warps: int, target: Target) -> int:
    """How many programs the machine runs at once at so many warps."""
    threads = num_warps * target.warp
    by_memory = min(target.registers // (threads * needed.registers), by_shared(int(needed.shared), target))
    return target.multiprocessors * max(1, min(32, by_memory, THREADS // threads))


def estimate(walk: Measure, num_warps: int, num_stages: int, target: Target, most: int = 0) -> Cost | None:
    """
    The cost of a measured kernel on a machine at these warps and stages, or None where it does not fit. A thread has at most so many
    registers, if that is not 0.
    """
    counts = walk.counts
    programs = prod(walk.grid.values())
    needed = resources(walk, num_warps, num_stages, target, most)
    if not needed.fit(target):
        return None
    registers, shared = needed.registers, needed.shared
    ahead = max(1, num_stages - 1)
    concurrent = resident(needed, num_warps, target)
    if walk.kernel.persistent:
        concurrent = min(concurrent, walk.kernel.persistent)
    # Where long programs come first the average counts, as in `rounds`: that some multiprocessors run one program fewer costs nothing.
    blocks = -(-(concurrent if walk.sorted else min(concurrent, programs)) // target.multiprocessors)
    waves = -(-programs // concurrent)
    memory = _memory_bytes(walk, walk.unique, concurrent, programs, target)
    cache = programs * (sum(counts.reads.values()) + sum(counts.writes.values()))
    each = target.multiprocessors
    dots = max(counts.dots * each / target.dot_rate + counts.dots32 * each / target.dot32_rate, counts.shared / SHARED_RATE)
    exps, work = counts.exps * each / target.exp_rate, counts.work * each / target.alu_rate * 2
    vector = max(exps, work) + VECTOR_LOSS * min(exps, work)
    busy = max(dots, vector) + _overlap_loss(walk, num_warps, num_stages, blocks) * min(dots, vector)
    largest = "dots" if dots >= vector else "exponentials" if exps > work else "elementwise work"
    rounds = float(-(-programs // target.multiprocessors))
    if walk.sorted:
        # Short programs at the end even out what every multiprocessor does.
        rounds = max(programs / target.multiprocessors, walk.uneven)
    elif walk.varies:
        rounds += UNEVEN_TAIL * (walk.uneven - 1)
    step = max(STEP, LATENCY / ahead)
    chain = START + walk.longest * step + (LATENCY if not walk.longest else 0.0)
    # The first step of a loop after another waits for what it loads; what others load is loaded ahead.
    chain += max(0.0, walk.begun - 1) * max(0.0, LATENCY - step) + walk.stalled * STALL
    # While a loop after another begins, only other blocks keep the units busy.
    idle = max(0.0, walk.begun - 1) * LATENCY / blocks
    # While programs of one wave end and those of the next begin, which those that run tiles in turn do not, only others load and store.
    between = 0 if walk.kernel.persistent else waves - 1
    times = {
        largest: rounds * (busy + idle),
        "memory": memory / target.bandwidth + between * START / blocks,
        "cache": cache / target.l2_bandwidth,
        "latency": START + waves * (chain - START) if walk.kernel.persistent else waves * chain,
    }
    bound = max(times, key=lambda name: times[name])
    seconds = times[bound] + UNHIDDEN * sum(value for name, value in times.items() if name != bound) + target.launch
    seconds += (1 if walk.kernel.persistent else waves) * len(walk.descriptors) * DESCRIBE
    if walk.arrivals:
        seconds += _last_seconds(walk, programs, target)
    flops = programs * (counts.dots + counts.dots32 + counts.work + walk.last.work / max(1, walk.arrivals))
    return Cost(seconds, memory, cache, flops, programs * walk.flops, programs, waves, registers, int(shared), bound)


def _overlap_loss(walk: Measure, num_warps: int, num_stages: int, blocks: int) -> float:
    """The share of the lesser of dots and vector work that is not hidden."""
    loss = OVERLAP_LOSS + (SEVERAL_BLOCKS if blocks > 1 else ONE_GROUP if num_warps <= WARP_GROUP else 0.0)
    loss += TOO_FEW_ROWS if WARP_GROUP_ROWS <= walk.rows < ROWS_PER_WARP * num_warps else 0.0
    loss += TWO_STAGES if num_stages <= 2 and walk.longest > 1 else 0.0
    return loss + (BOXED if walk.descriptors and num_warps > WARP_GROUP else 0.0)


def _spills(exact: Sequence[tuple[int, int]], threads: int) -> bool:
    """
    Whether exact f32 dots, of (results, summed elements) each, spill: their operands pass through registers, unrolled.

    Fitted to what Triton's compiler reports for products of many tile sizes on sm_90.
    """
    kept = [results for results, _ in exact if results]
    most = 64 if len(kept) == 1 else 40
    return sum(kept) > most * threads or sum(results * over for results, over in exact) > 2048 * threads


def _last_seconds(walk: Measure, programs: int, target: Target) -> float:
    """
    How long the last programs take after all have arrived: each reads what others stored through the second-level cache, at one
    multiprocessor's share of its bandwidth, and every step of its loops waits for its loads.
    """
    last = walk.last
    rounds = -(-max(1, programs // walk.arrivals) // target.multiprocessors)
    moved = (sum(last.reads.values()) + sum(last.writes.values())) * target.multiprocessors / target.l2_bandwidth
    busy = last.exps * target.multiprocessors / target.exp_rate + 2 * last.work * target.multiprocessors / target.alu_rate
    return ARRIVE + rounds * (LAST_STEP * max(1.0, last.steps) + max(moved, busy))


def _memory_bytes(walk: Measure, unique: Mapping[str, float], concurrent: int, programs: int, target: Target) -> float:
    """
    Bytes that reach memory: each buffer once where the cache holds what is reused, else once a wave for what a wave shares.
    """
    written = sum(min(unique[name], amount * programs) for name, amount in walk.counts.writes.items())
    if walk.arrivals:
        # What the last programs read of others' work is still in the cache.
        moved = [*walk.last.writes.items(), *((name, amount) for name, amount in walk.last.reads.items() if name not in walk.counts.writes)]
        written += sum(min(unique[name], amount * programs / walk.arrivals) for name, amount in moved)
    reads = walk.counts.reads
    once = sum(min(unique[name], amount * programs) for name, amount in reads.items())
    if once <= CACHED * target.l2:
        return written + once
    tiles = covered([walk.grid[dim.dim] for dim in walk.kernel.grid], concurrent, walk.kernel.group)
    shared = {dim.dim: count for dim, count in zip(walk.kernel.grid, tiles, strict=True)}
    waves = -(-programs // concurrent)
    total = written
    for name, amount in reads.items():
        part = amount * prod(shared[dim] for dim in sorted(walk.touches[name]))
        total += min(amount * programs, max(min(unique[name], amount * programs), waves * min(part, unique[name])))
    return total
