"""Strides of axes along which there is nothing to step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from cleave.graph import Input, Symbol
from cleave.reference import evaluate
from cleave.runtime.execute import execute
from tests.schedule.programs import Sketch, scheduled


@pytest.mark.parametrize("sizes", [{"z": 3, "k": 0}, {"z": 1, "k": 3}, {"z": 0, "k": 3}, {"z": 1, "k": 0}, {"z": 3, "k": 3}])
def test_the_stride_of_what_is_empty_or_one_element_may_be_any(sizes: Mapping[str, int]) -> None:
    """Memory says 1 for it, where rows of parts of 7 have a multiple of that otherwise."""
    s = Sketch("rows", "z=z k=k t=7", [Input("x", ("z", "k", "t"), "f32", "z (k t)")], [Symbol("z", (4,)), Symbol("k", (9,))])
    s.output(s.reduce("sum", 0, "k t"), "z", "f32")
    data = np.random.default_rng(0).standard_normal((sizes["z"], sizes["k"], 7)).astype(np.float32)
    program = scheduled(s.graph(), {"z": 4, "k": 9}, ["z", "k"])
    (found,) = execute(program, [data.reshape(sizes["z"], sizes["k"] * 7)], sizes)
    (expected,) = evaluate(s.graph(), [data], sizes)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
