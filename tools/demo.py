"""
One program at every level, from PyTorch to Triton, and the error of what comes out.

The program is causal grouped-query attention in plain operations: nothing tells Cleave what it is. Each heading says which
`cleave-opt` pass leads to the text below it.
"""

from __future__ import annotations

import inspect
import math
import sys
import time
from collections.abc import Sequence
from io import StringIO

import numpy as np
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from cleave.bridge.alg import alternatives_of, graph_op
from cleave.dialects.alg import GraphOp
from cleave.execution import Array, Runnable, runnables
from cleave.files import end_quietly
from cleave.frontend import capture
from cleave.parsing import verify
from cleave.universe import CLEAVE_UNIVERSE


def grouped_query(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention of 8 query heads to 2 key and value heads."""
    k = k.repeat_interleave(4, dim=1)
    v = v.repeat_interleave(4, dim=1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    visible = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    weights = torch.softmax(scores.masked_fill(~visible, -math.inf), dim=-1)
    return weights @ v


def example(rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random f16 inputs with that many queries and keys."""
    draw = torch.Generator().manual_seed(0)
    shapes = ((1, 8, rows, 64), (1, 2, rows, 64), (1, 2, rows, 64))
    q, k, v = (torch.randn(shape, generator=draw).half() for shape in shapes)
    return q, k, v


def heading(text: str) -> None:
    """Prints a heading."""
    print(f"\n{'=' * 100}\n{text}\n{'=' * 100}")


def printed(module: ModuleOp) -> str:
    """The text of a module's operations."""
    out = StringIO()
    printer = Printer(stream=out)
    for op in module.ops:
        printer.print_op(op)
        printer.print_string("\n")
    return out.getvalue()


def applied(name: str, module: ModuleOp) -> str:
    """Runs a pass on the module and returns the heading that says so."""
    started = time.perf_counter()
    made: ModulePass = CLEAVE_UNIVERSE.all_passes[name]()()
    made.apply(Context(), module)
    verify(module)
    return f"{name}, {time.perf_counter() - started:.2f} s"


def emitted(module: ModuleOp) -> str:
    """The Triton Python of a `tt` module."""
    out = StringIO()
    CLEAVE_UNIVERSE.all_targets["triton"]()().emit(Context(), module, out)
    return out.getvalue()


def choices(module: ModuleOp) -> str:
    """A line for each alternative of the module's graph."""
    (graph,) = [op for op in module.ops if isinstance(op, GraphOp)]
    lines = [f"{'alternative':14}{'FLOPs':>12}{'bytes':>12}  dependent reductions"]
    for entry in alternatives_of(graph):
        lines.append(f"{entry.name:14}{entry.flops:>12}{entry.bytes:>12}  {entry.phases}")
    return "\n".join(lines)


def error(program: Runnable, inputs: Sequence[Array], expected: Array) -> float:
    """How far the program's result, held in its own dtypes, is from the expected one at most."""
    arrays = [flat.reshape(program.shape(slot, {})) for flat, slot in zip(inputs, program.inputs, strict=True)]
    (result,) = program.call(arrays, {}, "declared")
    return float(np.max(np.abs(result.astype(np.float64).reshape(expected.shape) - expected)))


def main() -> int:
    """Shows every level, then the errors; exit code 1 where one is above twice PyTorch's and a unit in the last place of f16."""
    tensors = example(64)
    heading("PyTorch")
    print(inspect.getsource(grouped_query))
    captured = capture(grouped_query, tensors)
    module = ModuleOp([graph_op(captured.graph)])
    heading("alg: the program as captured, with named axes")
    print(printed(module))
    done = applied("alg-superoptimize", module)
    heading(f"alg: the alternatives that the search found ({done})")
    print(choices(module))
    done = applied("alg-select", module)
    heading(f"alg: the alternative of least work ({done})")
    print(printed(module))
    done = applied("alg-stabilize", module)
    heading(f"alg: with shifted exponentials ({done})")
    print(printed(module))
    (stable,) = runnables(module)
    done = applied("convert-alg-to-sched", module)
    heading(f"sched: kernels, tiles and loops ({done})")
    print(printed(module))
    (scheduled,) = runnables(module)
    done = applied("convert-sched-to-tt", module)
    heading(f"tt: Triton's own operations ({done})")
    print(printed(module))
    (lowered,) = runnables(module)
    heading("Triton Python")
    print(emitted(module))

    exact = grouped_query(*(tensor.double() for tensor in tensors)).numpy()
    inputs = [tensor.double().numpy().reshape(-1) for tensor in tensors]
    own = float(np.max(np.abs(grouped_query(*tensors).double().numpy() - exact)))
    limit = 2 * own + float(np.spacing(np.float16(np.max(np.abs(exact)))))
    heading(f"Greatest error against float64 on the CPU; above {limit:.2e} is a failure")
    print(f"{'PyTorch':8}{own:12.2e}")
    failed = False
    for program in (stable, scheduled, lowered):
        started = time.perf_counter()
        found = error(program, inputs, exact)
        print(f"{program.level:8}{found:12.2e}{time.perf_counter() - started:10.2f} s")
        failed |= not found <= limit
    return int(failed)


if __name__ == "__main__":
    end_quietly()
    sys.exit(main())
