"""
Machines as data: what the cost model and the legality checks need to know of each.

Rates are what well-written kernels reach, not the data sheet's peaks, where both are known.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP_GROUP_ROWS = 64
"""Rows of a product that the four warps of a warp group make at least, on GPUs that have such instructions."""


@dataclass(frozen=True, slots=True)
class Target:
    """
    One machine.

    Units: `bandwidth` and `l2_bandwidth` bytes/s; `dot_rate` f16 multiply-adds counted as two operations/s, `dot32_rate` the same for
    exact f32 dots, `exp_rate` exponentials/s, `alu_rate` f32 operations/s; `launch` seconds for each kernel of a captured graph;
    `shared` bytes a block may use; `registers` 32-bit registers a multiprocessor has; `l2` bytes.
    `capability` is what ahead-of-time compilation asks for: (backend, architecture, lanes of a warp).
    """

    name: str
    capability: tuple[str, str, int]
    multiprocessors: int
    shared: int
    registers: int
    l2: int
    bandwidth: float
    l2_bandwidth: float
    dot_rate: float
    dot32_rate: float
    exp_rate: float
    alu_rate: float
    launch: float

    @property
    def publishes(self) -> bool:
        """
        Whether a barrier of a block orders what its threads stored before an atomic operation of one of them, for other blocks.

        On AMD, Triton's barrier waits for shared memory alone, so stores of other waves may be on their way when the atomic is done.
        """
        return self.capability[0] == "cuda"

    @property
    def overlaps(self) -> bool:
        """Whether a launch may begin before the one before it has ended, and wait for it: NVIDIA GPUs since Hopper."""
        return self.capability[0] == "cuda" and int(self.capability[1]) >= 90

    @property
    def streams(self) -> bool:
        """Whether a launch may say what the second-level cache evicts first: NVIDIA GPUs since Ampere."""
        return self.capability[0] == "cuda" and int(self.capability[1]) >= 80

    @property
    def describes(self) -> bool:
        """Whether the machine copies boxes of memory as one: NVIDIA GPUs since Hopper."""
        return self.overlaps

    @property
    def warp(self) -> int:
        """Lanes of a warp."""
        return self.capability[2]


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("a100", ("cuda", "80", 32), 108, 166912, 65536, 40 << 20, 1.7e12, 6.0e12, 280e12, 17e12, 2.4e12, 17e12, 2.2e-6),
        Target("h100", ("cuda", "90", 32), 132, 232448, 65536, 50 << 20, 3.0e12, 9.0e12, 700e12, 48e12, 3.9e12, 50e12, 1.4e-6),
        Target("h200", ("cuda", "90", 32), 132, 232448, 65536, 50 << 20, 4.4e12, 9.0e12, 750e12, 48e12, 3.9e12, 50e12, 1.4e-6),
        Target("b200", ("cuda", "100", 32), 148, 232448, 65536, 126 << 20, 7.2e12, 12e12, 1600e12, 60e12, 4.4e12, 60e12, 1.4e-6),
        Target("rtx4090", ("cuda", "89", 32), 128, 101376, 65536, 72 << 20, 0.95e12, 4.0e12, 160e12, 60e12, 5.2e12, 65e12, 1.8e-6),
        Target("mi300x", ("hip", "gfx942", 64), 304, 65536, 131072, 256 << 20, 4.3e12, 10e12, 900e12, 80e12, 9.0e12, 80e12, 3.0e-6),
    )
}


def target(name: str) -> Target:
    """The machine of that name. Raises: ValueError, naming those known."""
    found = TARGETS.get(name)
    if found is None:
        raise ValueError(f"unknown target '{name}'; known are {', '.join(TARGETS)}")
    return found
