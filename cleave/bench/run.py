"""
Measures cases: every contender is checked against float64 first, then timed in the same run.

A contender whose error exceeds twice that of eager execution plus one unit in the last place has no ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

import cleave

from .programs import Case
from .timing import captured, interleaved


@dataclass
class Result:
    """Milliseconds and relative errors of one case by contender; `failed` says why one is missing. `compile_seconds` is Cleave's."""

    case: str
    dtype: str
    milliseconds: dict[str, float] = field(default_factory=dict[str, float])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    compile_seconds: float = 0.0
    kernels: list[str] = field(default_factory=list[str])

    def best_other(self) -> tuple[str, float] | None:
        """The fastest correct contender that is not Cleave."""
        others = [(value, name) for name, value in self.milliseconds.items() if name != "cleave" and name not in self.failed]
        return (min(others)[1], min(others)[0]) if others else None

    def ratio(self) -> float | None:
        """Time of the best existing contender over Cleave's; None if Cleave is wrong or missing."""
        best = self.best_other()
        if best is None or "cleave" in self.failed or "cleave" not in self.milliseconds:
            return None
        return best[1] / self.milliseconds["cleave"]

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        best = self.best_other()
        return {**asdict(self), "best": best[0] if best else None, "ratio": self.ratio()}


def relative_error(found: Tensor, exact: Tensor) -> float:
    """Norm of the difference over the norm of the exact result; not-a-number if any element is."""
    difference: float = (found.double() - exact).square().sum().sqrt().item()
    size: float = exact.square().sum().sqrt().item()
    return difference / size if size else difference


def measure(case: Case, dtype: torch.dtype, flush: str, tuned: bool) -> Result:
    """Checks and times one case on the current GPU. `tuned` adds torch.compile's max-autotune."""
    inputs = case.inputs("cuda", dtype)
    result = Result(case.name, str(dtype).removeprefix("torch."))
    exact = case.program(*(tensor.double() for tensor in inputs))
    eager_error = relative_error(case.program(*inputs), exact)
    budget = 2 * eager_error + torch.finfo(dtype).eps

    def compiled() -> Callable[..., Tensor]:
        started = time.perf_counter()
        out = cleave.compile(case.program, *inputs)
        result.compile_seconds = time.perf_counter() - started
        result.kernels = [f"{kernel.name} warps={kernel.num_warps} stages={kernel.num_stages}" for kernel in out.kernels]
        return out

    makers: dict[str, Callable[[], Callable[..., Tensor]]] = {
        "cleave": compiled,
        "eager": lambda: case.program,
        "compile": lambda: cast(Any, torch).compile(case.program, dynamic=False),
    }
    if tuned:
        makers["max-autotune"] = lambda: cast(Any, torch).compile(case.program, dynamic=False, mode="max-autotune-no-cudagraphs")
    for name, contender in case.contenders.items():
        makers[name] = lambda contender=contender: contender
    calls: dict[str, Callable[[], None]] = {}
    for name, make in makers.items():
        try:
            torch.compiler.reset()
            call = make()
            error = relative_error(call(*inputs), exact)
            result.errors[name] = error
            if not error <= budget:
                result.failed[name] = f"error {error:.2e} is over the budget {budget:.2e}"
            calls[name] = captured(lambda call=call: call(*inputs))
        except Exception as problem:
            lines = str(problem).strip().splitlines()
            result.failed[name] = f"{type(problem).__name__}: {lines[0] if lines else ''}"[:300]
    result.milliseconds = interleaved(calls, flush=flush)
    return result
