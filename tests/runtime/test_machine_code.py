"""The check of machine code on small listings, on random ones against all of their paths, and on real kernels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.runtime import machine_code
from cleave.runtime.binary import Binary
from cleave.runtime.compile import compile_module
from cleave.runtime.execute import executable
from cleave.runtime.machine_code import UnreadableError, disassembly, unset_reads, wrong_code
from cleave.schedule.program import Program
from tests import tile_programs


def listing(*lines: str) -> str:
    """Instructions and labels as nvdisasm prints them; a guard is part of an instruction."""
    out = ['\t.section\t.text.kernel,"ax",@progbits', "        .type           kernel,@function", "kernel:", ".text.kernel:"]
    address = 0
    for line in lines:
        if line.endswith(":"):
            out.append(line)
            continue
        out.append(f"        /*{address:04x}*/              {line if line.startswith('@') else '     ' + line} ;")
        address += 16
    return "\n".join([*out, ""])


def found(*lines: str) -> list[str]:
    """The registers that are reported, each with the number of the instruction."""
    return [f"{entry.register} {entry.address // 16}" for entry in unset_reads(listing(*lines))]


BROKEN = (
    "UMOV UR11, 0x80000020",
    "WARPGROUP.ARRIVE",
    "HGMMA.64x32x16.F32 R24, R40, gdesc[UR8].tnspB, R24",
    "UIADD3 UR4, UP0, UR12, 0x40, URZ",
    "UIADD3.X UR5, UR12, -0x7fffffe0, URZ, UP0, !UPT",
    "UMOV UR6, UR4",
    "EXIT",
    ".L_x_0:",
    "BRA `(.L_x_0)",
)
"""The end of the kernel in which ptxas 12.8 forgot a register."""


def test_what_the_assembler_forgot_is_found() -> None:
    first, second = unset_reads(listing(*BROKEN))
    assert str(first) == "it reads UR12 (0x30), which nothing before it sets"
    assert (second.register, second.address) == ("UR12", 0x40)


@pytest.mark.parametrize(
    ("lines", "reported"),
    [
        # Set later alone, in one line of instructions.
        (["UMOV UR6, UR4", "UMOV UR4, 0x1", "EXIT"], ["UR4 0"]),
        (["UMOV UR4, 0x1", "UMOV UR6, UR4", "EXIT"], []),
        # What an instruction sets it does not read.
        (["UIADD3 UR4, UR4, 0x1, URZ", "UMOV UR5, UR4"], ["UR4 0"]),
        # Operands of every look, and of instructions that set general registers.
        (["UIADD3 UR4, -UR5, ~UR6, UR7"], ["UR5 0", "UR6 0", "UR7 0"]),
        (["IADD3 R8, P0, R5, UR4, RZ", "IMAD.U32 R9, RZ, RZ, UR5"], ["UR4 0", "UR5 1"]),
        (["UISETP.NE.AND UP0, UPT, UR4, URZ, UPT", "USEL UR5, URZ, 0x1, UP0", "UMOV UR6, UR5"], ["UR4 0"]),
        # Parts of addresses and descriptors are not looked at.
        (["LDG.E.128 R36, desc[UR14][R40.64+0x800]", "STS.128 [R7+UR8], R36", "HGMMA.64x64x16.F32 R24, gdesc[UR4], RZ, !UPT"], []),
        (["UTMALDG.2D [UR8], [UR4], desc[UR6]", "ULDC UR5, c[0x0][UR4]"], []),
        # A guarded instruction may set.
        (["@P0 UMOV UR4, 0x1", "UMOV UR5, UR4"], []),
        (["@!UP1 UMOV UR5, UR4"], ["UR4 0"]),
    ],
)
def test_one_line_of_instructions(lines: list[str], reported: list[str]) -> None:
    assert found(*lines) == reported


@pytest.mark.parametrize(
    ("setting", "count"),
    [
        ("UMOV UR8, 0x1", 1),
        ("USHF.R.U64 UR8, UR40, 0x4, UR41", 1),
        ("S2UR UR8, SR_CgaCtaId", 1),
        ("R2UR UR8, R5", 1),
        ("R2UR P0, UR8, R5", 1),
        ("VOTEU.ANY UR8, UPT, PT", 1),
        ("ULDC.64 UR8, c[0x0][0x210]", 2),
        ("UIADD3.64 UR8, UR40, 0x2, URZ", 2),
        ("UIMAD.WIDE.U32 UR8, UR40, 0x4, UR40", 2),
        ("ULDC.128 UR8, c[0x0][0x210]", 4),
        # Of what is not known all that it could set, and any register that it names could be set.
        ("UNEW UR8, R5", 8),
        ("UNEW [R5], UR8", 8),
        ("@P0 UNEW.X P1, UR8, 0x5", 8),
        ("STG.E [R4], UR8", 8),
        # A general register comes first: the others are read.
        ("MOV R8, UR40", 0),
    ],
)
def test_how_many_registers_are_set(setting: str, count: int) -> None:
    lines = ["ULDC.64 UR40, c[0x0][0x0]", setting, *(f"UMOV UR30, UR{number}" for number in range(6, 18))]
    assert found(*lines) == [f"UR{number} {number - 4}" for number in range(6, 18) if not 8 <= number < 8 + count]


def test_where_unknown_results_lie_follows_from_their_number() -> None:
    """Several registers start at a multiple of their number."""
    lines = ["UNEW UR5, R2", "UNEW UR6, R2", "UNEW UR12, R2", *(f"MOV R0, UR{number}" for number in (4, 5, 6, 7, 8, 12, 15, 16))]
    assert found(*lines) == ["UR4 3", "UR8 7", "UR16 10"]


def test_a_loop_may_set_what_its_next_round_reads() -> None:
    body = ["@P0 BRA `(.L_x_2)", "UMOV UR5, UR4", ".L_x_2:", "UMOV UR4, 0x1", "@P1 BRA `(.L_x_1)", "EXIT"]
    assert found(".L_x_1:", *body) == []
    assert found("UMOV UR4, 0x0", ".L_x_1:", *body) == []
    # Nothing leads back.
    assert found(".L_x_1:", *body[:-2], "EXIT") == ["UR4 1"]


def test_a_branch_that_sets_is_enough_where_paths_meet() -> None:
    either = ["@P0 BRA `(.L_x_1)", "UMOV UR4, 0x1", "BRA `(.L_x_2)", ".L_x_1:", "UMOV UR6, UR4", ".L_x_2:", "UMOV UR5, UR4", "EXIT"]
    assert found(*either) == ["UR4 3"]
    assert found("UMOV UR4, 0x2", *either) == []


def test_branches_on_conditions_among_their_operands_go_on_too() -> None:
    for branch in ("BRA.U UP0, `(.L_x_1)", "BRA P0, `(.L_x_1)", "@!UPT BRA `(.L_x_1)"):
        assert found(branch, "UMOV UR4, 0x1", ".L_x_1:", "UMOV UR5, UR4") == []
    assert found("BRA `(.L_x_1)", "UMOV UR4, 0x1", ".L_x_1:", "UMOV UR5, UR4") == ["UR4 2"]


def test_what_no_path_leads_to_is_not_looked_at() -> None:
    assert found("EXIT", "UMOV UR5, UR4") == []
    assert found("@P0 EXIT", "UMOV UR5, UR4") == ["UR4 1"]


def test_threads_that_meet_again_go_on_where_their_region_ends() -> None:
    lines = ["BSSY B0, `(.L_x_2)", "@P0 BRA `(.L_x_1)", "UMOV UR4, 0x1", ".L_x_1:", "BSYNC B0", "EXIT", ".L_x_2:", "UMOV UR5, UR4"]
    assert found(*lines) == []
    assert found(*[line for line in lines if "0x1" not in line]) == ["UR4 4"]


@pytest.mark.parametrize("straying", ["CALL.REL.NOINC `(divide)", "BRX R4 -0x50", "RET.REL.NODEC R6 `(kernel)", "BRA `(elsewhere)"])
def test_where_paths_are_not_known_all_instructions_count(straying: str) -> None:
    assert found("UMOV UR6, UR4", straying, "EXIT", "UMOV UR4, 0x1") == []
    assert found("UMOV UR6, UR4", straying, "EXIT", "UMOV UR5, 0x1") == ["UR4 0"]


def test_a_function_may_be_called_from_another_section() -> None:
    other = listing("UMOV UR5, UR4", "RET.REL.NODEC R6 `(kernel)")
    assert unset_reads(listing("UMOV UR4, 0x1", "CALL.REL.NOINC `(other)") + other) == ()
    assert len(unset_reads(listing("UMOV UR3, 0x1", "CALL.REL.NOINC `(other)") + other)) == 1
    # Without calls each is a kernel of its own.
    assert len(unset_reads(listing("UMOV UR4, 0x1", "EXIT") + listing("UMOV UR5, UR4", "EXIT"))) == 1


def test_what_is_no_instruction_could_set_anything() -> None:
    assert found("{ what is this }", "UMOV UR6, UR4") == []


@pytest.mark.parametrize("text", ["", "\n\n", "nvdisasm fatal : no", "/*0000*/", "        /*zz*/ UMOV UR5, UR4 ;", "\x00\xff[](,;`("])
def test_what_is_no_listing_has_no_mistakes(text: str) -> None:
    assert unset_reads(text) == ()


@dataclass(frozen=True)
class Step:
    """An instruction of a random program: what it sets and reads, where it may jump, and whether it goes on after itself."""

    text: str
    sets: frozenset[int]
    reads: frozenset[int]
    jump: int | None = None
    goes_on: bool = True


@st.composite
def steps(draw: st.DrawFn, count: int) -> Step:
    """A step of a program of so many."""
    guard = draw(st.sampled_from(["", "@P0 ", "@!UP1 "]))
    target, first, second = draw(st.integers(0, count - 1)), draw(st.integers(4, 7)), draw(st.integers(4, 7))
    match draw(st.integers(0, 5)):
        case 0:
            return Step(f"{guard}BRA `(.L_x_{target})", frozenset(), frozenset(), target, bool(guard))
        case 1:
            return Step(f"{guard}EXIT", frozenset(), frozenset(), None, bool(guard))
        case 2:
            return Step(f"{guard}ULDC.64 UR{first & ~1}, c[0x0][0x210]", frozenset([first & ~1, first | 1]), frozenset())
        case 3:
            return Step(f"{guard}MOV R{first}, UR{second}", frozenset(), frozenset([second]))
        case 4:
            return Step(f"{guard}UMOV UR{first}, 0x1", frozenset([first]), frozenset())
        case _:
            return Step(f"{guard}UIADD3 UR{first}, UP0, UR{second}, 0x1, URZ", frozenset([first]), frozenset([second]))


def over_paths(program: list[Step]) -> set[tuple[int, int]]:
    """Reads, by place and register, that some path leads to and none with the register set: every state of every path is met."""
    met: set[tuple[int, frozenset[int]]] = set()
    waiting: list[tuple[int, frozenset[int]]] = [(0, frozenset())]
    while waiting:
        place, known = waiting.pop()
        if place == len(program) or (place, known) in met:
            continue
        met.add((place, known))
        step = program[place]
        # A guarded instruction may do nothing.
        for after in {known, known | step.sets} if step.text.startswith("@") else {known | step.sets}:
            if step.goes_on:
                waiting.append((place + 1, after))
            if step.jump is not None:
                waiting.append((step.jump, after))
    reads = {(place, number) for place, _ in met for number in program[place].reads}
    return {(place, number) for place, number in reads if not any(at == place and number in known for at, known in met)}


@settings(max_examples=300)
@given(st.integers(1, 9).flatmap(lambda count: st.lists(steps(count), min_size=count, max_size=count)))
def test_what_is_reported_is_wrong_along_every_path(program: list[Step]) -> None:
    """And all that is: the instructions are known ones."""
    lines = [line for place, step in enumerate(program) for line in (f".L_x_{place}:", step.text)]
    reported = {(entry.address // 16, int(entry.register.removeprefix("UR"))) for entry in unset_reads(listing(*lines))}
    assert reported == over_paths(program)


REAL = {
    "product": tile_programs.matmul(tile=64),
    "large product": tile_programs.matmul("bf16", 128),
    "attention": tile_programs.streamed(tile=64, width=64),
    "sums": tile_programs.split_sum(),
}


@pytest.mark.parametrize("program", REAL.values(), ids=REAL)
def test_nothing_is_reported_of_real_kernels(program: Program) -> None:
    for kernel in compile_module(executable(program).module, "sm_90"):
        text = disassembly(kernel.binary.image)
        assert "EXIT" in text and ("HGMMA" in text) == (kernel.wgmma > 0)
        assert unset_reads(text) == ()
        assert wrong_code(kernel.binary) == ""


def test_what_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreadableError, match=r"^nvdisasm cannot read it: CalledProcessError$"):
        wrong_code(kernel(1, b"no machine code"))
    monkeypatch.setattr(machine_code, "_disassembler", lambda: "")
    with pytest.raises(UnreadableError, match=r"^Triton comes without nvdisasm$"):
        disassembly(b"")
    monkeypatch.setattr(machine_code, "_disassembler", lambda: "/nowhere/nvdisasm")
    with pytest.raises(UnreadableError, match=r"^nvdisasm cannot read it: FileNotFoundError$"):
        disassembly(b"")


def kernel(wgmma: int, image: bytes = b"") -> Binary:
    return Binary("kernel", "sm_90", "kernel", image, 128, 0, 32, 0, 3, wgmma=wgmma)


def test_what_has_warp_group_products_is_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a disassembler that finds the wrong code in everything."""
    (tmp_path / "listing").write_text(listing(*BROKEN))
    tool = tmp_path / "nvdisasm"
    tool.write_text(f'#!/bin/sh\ncat "{tmp_path}/listing"\n')
    tool.chmod(0o755)
    monkeypatch.setattr(machine_code, "_disassembler", lambda: str(tool))
    assert wrong_code(kernel(4)) == "it reads UR12 (0x30), which nothing before it sets"
    assert wrong_code(kernel(0)) == ""
