"""What machine code of Hopper does to registers: writes to operands of warp-group products that are still running."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_INSTRUCTION = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)\s*(.*?);")
_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_JUMP = re.compile(r"BRA.*`\((\.L_x_\d+)\)")
_WRITES_NOTHING = (
    "ST",
    "BAR",
    "BRA",
    "LDG",
    "RED",
    "DEPBAR",
    "WARPGROUP",
    "R2UR",
    "PLOP",
    "NOP",
    "EXIT",
    "FENCE",
    "MEMBAR",
    "VOTE",
    "SYNCS",
)
_PREDICATES = ("ISETP", "FSETP", "UISETP", "HSETP2")


def disassembled(cubin: Any, folder: Path) -> str:
    """The text of a kernel's instructions, by the disassembler that Triton brings."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    file = folder / "kernel.cubin"
    file.write_bytes(cubin)
    return subprocess.run([tool, "-c", file], capture_output=True, text=True, check=True).stdout


def loops(text: str) -> Iterator[list[tuple[str, str]]]:
    """The instructions of every loop, as name and operands."""
    lines = text.splitlines()
    labels: dict[str, int] = {}
    for place, line in enumerate(lines):
        label, jump = _LABEL.match(line), _JUMP.search(line)
        if label:
            labels[label.group(1)] = place
        if jump and jump.group(1) in labels:
            found = [_INSTRUCTION.search(each) for each in lines[labels[jump.group(1)] : place + 1]]
            yield [(match.group(1), match.group(2)) for match in found if match]


def _written(name: str, operands: str) -> range:
    first = re.match(r"R(\d+)", operands)
    if first is None or (name.startswith((*_WRITES_NOTHING, *_PREDICATES)) and not re.match(r"LDG\.E(\.[A-Z0-9]+)*$", name)):
        return range(0)
    wide = 4 if "M88.4" in name or ".128" in name else 2 if ".64" in name or "WIDE" in name or "M88.2" in name else 1
    return range(int(first.group(1)), int(first.group(1)) + wide)


def overwrites(body: Sequence[tuple[str, str]]) -> list[str]:
    """
    The instructions of a loop that write to a register which a running product reads as its left operand.

    The body is followed twice, as a product may run on into the next iteration. Products end in groups, oldest first, where the code
    waits until no more than some are left.
    """
    running: list[tuple[frozenset[int], bool]] = []
    found: list[str] = []
    for name, operands in (*body, *body):
        if name.startswith("HGMMA"):
            left = re.match(r"R(\d+)", operands.split(",")[1].strip())
            first = int(left.group(1)) if left else 0
            running.append((frozenset(range(first, first + 4)) if left else frozenset(), "gsb0" in operands))
        elif name.startswith("WARPGROUP.DEPBAR"):
            kept = int(operands.split(",")[1].strip(), 16)
            ends = [place for place, (_, last) in enumerate(running) if last]
            if len(ends) > kept:
                running = running[ends[len(ends) - kept - 1] + 1 :]
        elif any(registers & set(_written(name, operands)) for registers, _ in running):
            found.append(f"{name} {operands}")
    return found
