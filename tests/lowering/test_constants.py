"""A constant is the number it names in every element type, by itself and beside a tensor, down to what Triton's interpreter runs."""

from __future__ import annotations

import numpy as np
import pytest

from cleave.algebra.probes import Probe, results
from cleave.runtime.execute import execute
from tests.alg_programs import graph_from
from tests.schedule.programs import scheduled

LARGEST, LEAST = float(np.finfo(np.float32).max), float(np.finfo(np.float32).smallest_normal)
CONSTANTS = {
    "i1": ("true", "false"),
    "i32": ("0", "-1", "7", str(2**31 - 1), str(-(2**31))),
    "i64": ("0", "-3", str(2**40 + 5), str(-(2**33)), str(2**63 - 1)),
    "f32": ("0.0", "-0.5", repr(LARGEST), repr(-LARGEST), repr(LEAST), "1.0e-40", "-1.0e-44", "0x7F800000", "0xFF800000"),
    "f64": ("0.0", "1.5", "1.0e300", "-1.0e-310", "0.1"),
}
INPUTS = {
    "i1": np.array([True, False, True]),
    "i32": np.array([3, -4, 2**31 - 9]),
    "i64": np.array([3, -4, 2**40]),
    "f32": np.array([0.5, -3.0, 1e-3]),
    "f64": np.array([0.5, -3.0, 1e-3]),
}


def forms(dtype: str, number: str) -> list[tuple[str, str]]:
    """Lines that make %r of %x and a constant, and the element type of %r."""
    made = f"%c = alg.constant {number} : {dtype}"
    out = [
        (f"{made}\n  %r = alg.compare {predicate} {sides} : !alg.tensor<[m], i1>", "i1")
        for predicate in ("lt", "le", "eq", "ge")
        for sides in ("%x, %c", "%c, %x")
    ]
    out += [(f"{made}\n  %r = alg.{kind} %x, %c : !alg.tensor<[m], {dtype}>", dtype) for kind in ("max", "min") if dtype != "i1"]
    inexact = dtype in ("f32", "f64") and not abs(float.fromhex(number) if number.startswith("0x") else float(number)) < 100
    for other in CONSTANTS:
        if other == "i1" or (other.startswith("i") and inexact) or other == dtype:
            continue
        cast = f"%d = alg.cast %c : {other}\n  %y = alg.cast %x : !alg.tensor<[m], {other}>"
        out.append((f"{made}\n  {cast}\n  %r = alg.min %y, %d : !alg.tensor<[m], {other}>", other))
    return out


@pytest.mark.parametrize("dtype, number", [(dtype, number) for dtype, numbers in CONSTANTS.items() for number in numbers])
def test_constants(dtype: str, number: str) -> None:
    for lines, kind in forms(dtype, number):
        text = f"alg.graph @f axes [m = 3] (%x: !alg.tensor<[m], {dtype}>) -> (!alg.tensor<[m], {kind}>) {{\n  {lines}\n  alg.yield %r\n}}"
        graph = graph_from(text)
        x = INPUTS[dtype]
        (wanted,) = results(Probe(graph, {}), [x], np.float64, respect_dtypes=True)
        (found,) = execute(scheduled(graph, {}), [x], {})
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(np.asarray(found, np.float64), np.asarray(wanted, np.float64), err_msg=text)
