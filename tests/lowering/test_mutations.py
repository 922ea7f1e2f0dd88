"""Damaged programs of `sched` and `tt` are refused with a place, or lower and print like any other: never another exception."""

from __future__ import annotations

import random
import re
from io import StringIO
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.printer import Printer
from xdsl.universe import XDSL_UNIVERSE

from cleave.bridge.sched import module_of
from cleave.errors import CleaveError
from cleave.parsing import parse_module, verify
from cleave.passes.convert_sched_to_tt import ConvertSchedToTtPass
from cleave.passes.tt_emulate_bf16 import TtEmulateBf16Pass
from cleave.targets.triton_python import triton_file
from cleave.targets.ttir import ttir_text
from cleave.universe import CLEAVE_UNIVERSE
from tests.tile_programs import CASES

EXAMPLES = Path(__file__).parent.parent.parent / "lit_tests" / "dialects"
TOKEN = re.compile(r"\w+|[^\w\s]|\s+")
NUMBERS = [0, 1, 2, 3, 7, 16, 48, 2**31, 2**40, 10**30]


def context() -> Context:
    out = Context()
    for universe in (XDSL_UNIVERSE, CLEAVE_UNIVERSE):
        for name, dialect in universe.all_dialects.items():
            out.register_dialect(name, dialect)
    return out


def sources() -> list[str]:
    out: list[str] = []
    for name in ("sched", "tt"):
        lines = (EXAMPLES / f"{name}.mlir").read_text().splitlines()
        out.append("\n".join(line for line in lines if not line.strip().startswith("//")))
    for case in CASES.values():
        stream = StringIO()
        Printer(stream).print_op(module_of(case.program()))
        out.append(stream.getvalue())
    return out


SOURCES = sources()


def damaged(seed: int) -> str:
    """A program cut off, with a token changed or missing, other numbers, or a line missing or out of place."""
    rng = random.Random(seed)
    text = rng.choice(SOURCES)
    parts = TOKEN.findall(text)
    place = rng.randrange(len(parts))
    match rng.randrange(5):
        case 0:
            return text[: rng.randrange(len(text))]
        case 1:
            parts[place] = rng.choice(parts)
        case 2:
            del parts[place]
        case 3:
            digits = [position for position, part in enumerate(parts) if part.isdigit()]
            parts[rng.choice(digits)] = str(rng.choice(NUMBERS))
        case _:
            lines = text.splitlines()
            lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))
            return "\n".join(lines)
    return "".join(parts)


@pytest.mark.parametrize("seed", range(0, 240, 30))
def test_damage_is_an_error_or_a_program(seed: int) -> None:
    refused = 0
    for each in range(seed, seed + 30):
        try:
            module = parse_module(context(), damaged(each), "damaged.mlir")
            verify(module)
            ConvertSchedToTtPass().apply(context(), module)
            verify(module)
            triton_file(module)
            ttir_text(module)
            TtEmulateBf16Pass().apply(context(), module)
            verify(module)
        except CleaveError as error:
            refused += 1
            assert str(error).startswith("damaged.mlir:"), str(error)
    assert refused > 0
