"""
A check of NVIDIA's machine code: a uniform register that an instruction reads is set by one that can run before it.

ptxas 12.8, which Triton 3.6 ships, breaks this in some kernels whose warp-group products have a right operand of 16 or 32 columns: it
adds to a register that no instruction sets where it should add to the operand's address, and the results are wrong without any error.
ptxas 12.9 was not seen to. Where candidates are timed their results are checked; where the cost model chooses, nothing else would notice.

What is reported is an error along every path, never a doubt. Of an instruction that is not known everything that it could set counts as
set, and only registers that are operands by themselves count as read: of the four in `gdesc[UR4]` an instruction may use two. General
registers and predicates are left out: packing a value with one that is undefined reads a register that nothing sets, and does no harm.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from cleave.runtime.binary import Binary

PATIENCE = 20.0
"""Seconds after which the disassembler is given up."""

_SECTION = re.compile(r"\s*\.section\s+\.text\.")
_LABEL = re.compile(r"([.$\w]+):\s*$")
_ADDRESS = re.compile(r"\s*/\*([0-9a-f]+)\*/")
_INSTRUCTION = re.compile(r"\s+(?:(@!?\w+)\s+)?([A-Z][\w.]*)([^;]*);")
_TARGET = re.compile(r"`\(([^)]*)\)")
_COMMA = re.compile(r",(?![^\[({]*[\])}])")
_UNIFORM = re.compile(r"[-~!|]*UR(\d{1,3})\|?(?:\.\w+)*")
_GENERAL = re.compile(r"[-~!|]*R(?:\d+|Z)\b")
_PREDICATE = re.compile(r"!?U?P(?:\d+|T|R)\b")

_ONE = re.compile("R2UR|REDUX|S2UR|UBMSK|UBREV|UFLO|UIADD3|UIMAD|ULDC|ULEA|ULOP3|UMOV|UP2UR|UPOPC|UPRMT|USEL|USGXT|USHF|VOTEU")
"""What sets one uniform register, unless a suffix says more, and reads the others that it names."""

_NONE = "UISETP"
"""What sets predicates, and reads the uniform registers that it names."""

_WIDTHS = {"64": 2, "WIDE": 2, "128": 4}
"""How many it sets, by suffix."""

_STRAYING = frozenset(["BRX", "BRXU", "CALL", "JCAL", "JMP", "JMX", "JMXU", "LEPC", "PRET", "RET", "RTT"])
"""After what something else may be run than what comes next and what its labels lead to."""

_ALL = (1 << 256) - 1

_LONGEST = 1000
"""A line of so many characters is no instruction."""


@dataclass(frozen=True, slots=True)
class UnsetRead:
    """An instruction, by its address in bytes, that reads a register that nothing before it sets."""

    register: str
    address: int

    def __str__(self) -> str:
        return f"it reads {self.register} (0x{self.address:x}), which nothing before it sets"


@dataclass(frozen=True, slots=True)
class _Instruction:
    """
    What an instruction may set and surely reads, uniform registers as bits, and what is run next: what comes after it, unless it `ends`
    there, and what the labels that it names lead to, or unknown where it `strays`. One that `opens` a region, which threads may leave
    apart, names its end; they meet where one `closes` it.
    """

    address: int
    sets: int
    reads: int = 0
    labels: tuple[str, ...] = ()
    opens: bool = False
    closes: bool = False
    ends: bool = False
    strays: bool = False


class UnreadableError(RuntimeError):
    """Machine code cannot be read here."""


def wrong_code(binary: Binary) -> str:
    """
    What is wrong with the machine code of a kernel, empty where nothing is found. Raises: UnreadableError.

    Only what has warp-group products is looked at: wrong code was met with these alone, and to read all would take longer than to
    compile what is small.
    """
    found = unset_reads(disassembly(binary.image)) if binary.wgmma else ()
    return str(found[0]) if found else ""


def disassembly(cubin: bytes) -> str:
    """The text of machine code. Takes half a second. Raises: UnreadableError where Triton has no disassembler, or that cannot read it."""
    tool = _disassembler()
    if not tool:
        raise UnreadableError("Triton comes without nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            # Where branches through a table lead is not needed, and takes time to find.
            command = [tool, "--print-code", "--no-dataflow", file.name]
            made = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE, errors="replace")
        except (OSError, subprocess.SubprocessError) as error:
            raise UnreadableError(f"nvdisasm cannot read it: {type(error).__name__}") from error
    return made.stdout


@lru_cache(maxsize=1)
def _disassembler() -> str:
    """Where nvdisasm is, empty where it is not."""
    import triton

    try:
        return str(cast(Any, triton).knobs.nvidia.nvdisasm.path)
    except (AttributeError, RuntimeError):
        return ""


def unset_reads(text: str) -> tuple[UnsetRead, ...]:
    """
    The uniform registers that are read although nothing that can run before sets them, in a text of nvdisasm, in its order. A text that
    is none has none.

    Where calls or branches through registers make what runs before unknown, all instructions of the text count.
    """
    sections = list(_sections(text))
    everything = 0
    for instructions, _ in sections:
        for instruction in instructions:
            everything |= instruction.sets
    lost = any(instruction.strays for instructions, _ in sections for instruction in instructions)
    out: list[UnsetRead] = []
    for instructions, labels in sections:
        before = None if lost else _set_before(instructions, labels)
        for place, instruction in enumerate(instructions):
            known = everything if before is None else before[place]
            if known is not None:
                out += [UnsetRead(f"UR{number}", instruction.address) for number in _numbers(instruction.reads & ~known)]
    return tuple(out)


def _set_before(instructions: Sequence[_Instruction], labels: dict[str, int]) -> list[int | None] | None:
    """
    The registers that are set on any path to each instruction, as bits, None for one that no path leads to; nothing where a label is
    not among these.
    """
    if any(label not in labels for instruction in instructions for label in instruction.labels):
        return None
    regions = {labels[label] for instruction in instructions if instruction.opens for label in instruction.labels}
    out: list[int | None] = [None] * (len(instructions) + 1)
    out[0] = 0
    waiting = deque([0])
    while waiting:
        place = waiting.popleft()
        known = out[place]
        if place == len(instructions) or known is None:
            continue
        instruction = instructions[place]
        known |= instruction.sets
        following = {labels[label] for label in instruction.labels} | (regions if instruction.closes else set[int]())
        for after in following if instruction.ends else {*following, place + 1}:
            met = out[after]
            if met is None or known & ~met:
                out[after] = known if met is None else met | known
                waiting.append(after)
    return out


def _sections(text: str) -> Iterator[tuple[list[_Instruction], dict[str, int]]]:
    """The instructions of each section, and which of them is the first after each label."""
    instructions: list[_Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if _SECTION.match(line):
            yield instructions, labels
            instructions, labels = [], {}
        elif found := _ADDRESS.match(line):
            address, known = int(found.group(1), 16), _INSTRUCTION.match(line, found.end()) if len(line) < _LONGEST else None
            instructions.append(_instruction(address, *known.groups()) if known else _Instruction(address, _ALL, strays=True))
        elif found := _LABEL.match(line):
            labels[found.group(1)] = len(instructions)
    yield instructions, labels


def _instruction(address: int, guard: str | None, name: str, rest: str) -> _Instruction:
    opcode, *suffixes = name.split(".")
    operands = [operand.strip() for operand in _COMMA.split(rest)]
    sets, reads = _uniform(opcode, suffixes, operands)
    labels = tuple(_TARGET.findall(rest))
    # A branch with more operands than its target has a condition among them.
    ends = guard is None and (opcode == "EXIT" or (opcode == "BRA" and len(operands) == len(labels) == 1))
    return _Instruction(address, sets, reads, labels, opcode == "BSSY", opcode == "BSYNC", ends, opcode in _STRAYING)


def _uniform(opcode: str, suffixes: Sequence[str], operands: Sequence[str]) -> tuple[int, int]:
    """The uniform registers that an instruction may set, and those that it is sure to read, as bits."""
    # What is set comes first, predicates aside.
    values = [operand for operand in operands if not _PREDICATE.match(operand)]
    if not values:
        return 0, 0
    named = [int(found.group(1)) if (found := _UNIFORM.fullmatch(operand)) else None for operand in values]
    if opcode == _NONE or _GENERAL.match(values[0]):
        return 0, _bits(number for number in named if number is not None)
    if _ONE.fullmatch(opcode):
        reads = _bits(number for number in named[1:] if number is not None)
        if named[0] is None:
            return 0, reads
        return _run(named[0], max((_WIDTHS.get(suffix, 1) for suffix in suffixes), default=1)), reads
    sets = 0
    for number in named:
        if number is not None:
            # Several registers start at a multiple of their number.
            sets |= _run(number, next(width for width in (8, 4, 2, 1) if number % width == 0))
    return sets, 0


def _bits(numbers: Iterator[int]) -> int:
    out = 0
    for number in numbers:
        out |= 1 << number
    return out


def _run(first: int, count: int) -> int:
    return ((1 << count) - 1) << first


def _numbers(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
