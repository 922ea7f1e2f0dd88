"""The process that times, where something goes wrong in it."""

from __future__ import annotations

import pytest
import torch

from cleave.runtime.build import Built
from cleave.runtime.clock import Data, GpuClock, Workload
from cleave.targets.triton_python import TritonFile


def workload(size: int) -> Workload:
    return Workload((Data((size,), (1,), torch.float16),), {}, None, 1e-3, 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_inputs_that_cannot_be_made_are_told_of_once() -> None:
    """Every program gets the reason; the process is started again for another workload only."""
    clock = GpuClock(workload(3))
    built = Built(TritonFile("", {}, ()), {})
    try:
        first = clock.prepare(0, built)
        assert "the inputs could not be made" in first.failure
        assert clock._process is None
        assert clock.prepare(1, built) == first
        assert clock._process is None
        clock.workload = workload(4)
        assert clock.prepare(1, built) == first
    finally:
        clock.close()
