"""
Compiled kernels as plain values: the machine code and what a launch must know of it. They pickle.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*\((.*?)\)", re.DOTALL)
_THREADS = re.compile(r"\.reqntid\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Binary:
    """
    A kernel's machine code.

    A launch passes the kernel's own arguments, then `scratch_arguments` addresses of scratch memory: the first points to
    `scratch` bytes for every program, the others are null. Units: `shared` bytes a block, `registers` and `spills` a thread,
    spills in 4-byte registers; `threads` of a block.
    """

    name: str
    architecture: str
    entry: str
    image: bytes
    threads: int
    shared: int
    registers: int
    spills: int
    arguments: int
    scratch_arguments: int = 0
    scratch: int = 0
    wgmma: int = 0

    def misfit(self, shared: int, registers: int) -> str:
        """
        Why a block does not fit on a multiprocessor with these limits (bytes of shared memory, 32-bit registers), or nothing.
        """
        if self.shared > shared:
            return f"needs {self.shared} bytes of shared memory, there are {shared}"
        # A warp gets registers in portions of 8 for each of its lanes.
        needed = -(-self.registers // 8) * 8 * self.threads
        if needed > registers:
            return f"needs {needed} registers, there are {registers}"
        return ""


def entry_of(ptx: str) -> tuple[str, int, int]:
    """The name of the kernel in a PTX text, how many parameters it has, and how many threads a block must have."""
    found = _ENTRY.search(ptx)
    assert found is not None, "a compiled kernel has an entry point"
    threads = _THREADS.search(ptx, found.end())
    assert threads is not None, "Triton states the size of a block"
    return found.group(1), found.group(2).count(".param"), int(threads.group(1))
