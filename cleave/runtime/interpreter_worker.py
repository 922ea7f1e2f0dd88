"""
The child process of `cleave.runtime.interpreter`: runs Triton kernels on the CPU.

Started with TRITON_INTERPRET=1, which Triton reads when it is imported. Reads pickled requests from standard input and
answers on what was standard output; anything kernels print goes to standard error.

Corrected here, as Triton's interpreter stores bfloat16 as 16-bit integers: a `tl.dot` of bfloat16 operands multiplies their
bit patterns, and a conversion to bfloat16 cuts bits off instead of rounding to nearest even. Known divergences that remain:
elementwise arithmetic on bfloat16 tiles is meaningless (kernels do it in float32), dots accumulate in one step and not in the
hardware's order, and a race between programs or between a load and a dot cannot show, as programs run one after another.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
import tempfile
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter

Floats = np.ndarray[Any, np.dtype[np.float32]]


def bf16_decoded(bits: np.ndarray[Any, Any]) -> Floats:
    """The float32 values of bfloat16 bit patterns."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def bf16_encoded(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bfloat16 bit patterns nearest to the values, ties to even; a NaN stays one."""
    exact = np.asarray(values, dtype=np.float32)
    bits = exact.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(exact), np.uint16(0x7FC0), rounded)


def correct_bf16() -> None:
    """Makes the interpreter's dots and conversions honour bfloat16."""
    builder: Any = triton_interpreter.InterpreterBuilder
    handle: Any = triton_interpreter.TensorHandle
    plain_dot, plain_cast = builder.create_dot, builder.cast_impl

    def decoded(tensor: Any) -> Any:
        return handle(bf16_decoded(tensor.data), tl.float32) if tensor.dtype.scalar == tl.bfloat16 else tensor

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return plain_dot(self, decoded(a), decoded(b), *rest)

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        scalar: Any = dst_type.scalar
        if scalar != tl.bfloat16:
            return plain_cast(self, decoded(src), dst_type)
        if src.dtype.scalar == tl.bfloat16:
            return src
        return handle(bf16_encoded(np.asarray(src.data).astype(np.float32)), scalar)

    builder.create_dot = create_dot
    builder.cast_impl = cast_impl
    for name in ("create_fp_ext", "create_fp_trunc", "create_si_to_fp", "create_ui_to_fp", "create_fp_to_si", "create_fp_to_ui"):
        setattr(builder, name, cast_impl)
    builder.create_fp_to_fp = lambda self, src, dst_type, rounding_mode=None: cast_impl(self, src, dst_type)  # pyright: ignore[reportUnknownLambdaType]


class Modules:
    """Kernel modules by source text; Triton reads a kernel's text from its file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loaded: dict[str, ModuleType] = {}

    def of(self, source: str) -> ModuleType:
        """The imported module of a source text."""
        found = self.loaded.get(source)
        if found is None:
            name = f"cleave_kernels_{len(self.loaded)}"
            path = self.folder / f"{name}.py"
            path.write_text(source)
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            found = importlib.util.module_from_spec(spec)
            sys.modules[name] = found
            spec.loader.exec_module(found)
            self.loaded[source] = found
        return found


def tensor_of(array: np.ndarray[Any, Any], dtype: str) -> torch.Tensor:
    """A tensor over the array's memory; bfloat16 arrives as 16-bit integers."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bf16" else tensor


def answer(request: dict[str, Any], modules: Modules) -> dict[str, Any]:
    """Runs one request's calls in order and returns its buffers."""
    module = modules.of(request["source"])
    tensors = {name: tensor_of(array, request["dtypes"][name]) for name, array in request["buffers"].items()}
    for call in request["calls"]:
        arguments = [tensors[entry] if isinstance(entry, str) else entry for entry in call["arguments"]]
        if all(count > 0 for count in call["grid"]):
            with np.errstate(all="ignore"):
                getattr(module, call["kernel"])[call["grid"]](*arguments, **call["constants"])
    return {"buffers": {name: request["buffers"][name] for name in request["written"]}}


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answers requests until the other side closes."""
    with tempfile.TemporaryDirectory(prefix="cleave-interpreter-") as folder:
        modules = Modules(Path(folder))
        while True:
            try:
                request = pickle.load(source)
            except EOFError:
                return
            try:
                reply = answer(request, modules)
            except Exception as problem:
                reply = {"error": f"{type(problem).__name__}: {problem}", "traceback": traceback.format_exc()}
            pickle.dump(reply, sink, protocol=5)
            sink.flush()


def main() -> None:
    """Entry point: takes standard output for answers and gives prints standard error."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    torch.set_num_threads(1)
    correct_bf16()
    serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
