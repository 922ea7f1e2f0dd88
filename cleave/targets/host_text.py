"""The `launch` function of a generated file: a plan as readable Python over torch tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cleave.extents import Extent
from cleave.layouts import parse_layout
from cleave.runtime.plan import Allocate, Call, Plan, Scalar, symbol_sources
from cleave.schedule.program import Buffer, LibraryCall
from cleave.targets.names import Names

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TORCH = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    "i32": "int32",
    "i64": "int64",
    "index": "int32",
}


class HostText:
    """Writes one function; `kernels` are the names of the kernels in the file."""

    def __init__(self, plan: Plan, function: str, kernels: Mapping[str, str], taken: frozenset[str]) -> None:
        self.plan = plan
        self.kernels = kernels
        self.names = Names(taken | {function, "programs", "running"})
        self.buffers = {buffer.name: self.names.fresh(buffer.name) for buffer in (*plan.inputs, *plan.outputs)}
        self.layouts = {
            buffer.name: parse_layout(layout) for buffer, layout in zip((*plan.inputs, *plan.outputs), plan.layouts, strict=True)
        }
        self.dtypes = {buffer.name: buffer.dtype for buffer in (*plan.inputs, *plan.outputs)}
        self.sizes: dict[str, str] = {}
        self.lines: list[str] = []
        self.write(function)

    def size_name(self, name: str) -> str:
        """The variable of an axis or symbol."""
        if name not in self.sizes:
            self.sizes[name] = self.names.fresh(name)
        return self.sizes[name]

    def extent(self, size: Extent) -> str:
        """Python for an extent: names become variables, `ceildiv` becomes `triton.cdiv`."""
        functions = {"ceildiv": "triton.cdiv", "min": "min", "max": "max"}

        def word(found: re.Match[str]) -> str:
            name = found.group(0)
            is_call = size.text[found.end() :].startswith("(")
            return functions[name] if is_call and name in functions else self.size_name(name)

        return _WORD.sub(word, size.text).replace("*", " * ")

    def write(self, function: str) -> None:
        plan = self.plan
        sources = symbol_sources(plan)
        told = {source.symbol for source in sources}
        asked = [name for name in plan.symbols if name not in told]
        parameters = [self.buffers[buffer.name] for buffer in plan.inputs]
        if asked:
            parameters += ["*", *(self.size_name(name) for name in asked)]
        self.lines.append(f"def {function}({', '.join(parameters)}):")
        described = [f"{self.buffers[buffer.name]} ({self.spelled(buffer)})" for buffer in plan.outputs]
        self.lines.append(f'    """Returns {", ".join(described) or "nothing"}."""')
        for source in sources:
            name, shape = self.buffers[plan.inputs[source.position].name], f".shape[{source.dim}]"
            divisor = source.divisor
            self.line(f"{self.size_name(source.symbol)} = {name}{shape}" + self.over(divisor))
        for axis, size in plan.sizes:
            if size.text != axis:
                self.line(f"{self.size_name(axis)} = {self.extent(size)}")
        for buffer in plan.inputs:
            self.line(f"assert {self.buffers[buffer.name]}.shape == {self.shape(buffer.name)}")
            if any(stride is not None for stride in buffer.strides):
                self.line(f"{self.buffers[buffer.name]} = {self.buffers[buffer.name]}.contiguous()")
        device = f"{self.buffers[plan.inputs[0].name]}.device" if plan.inputs else '"cuda"'
        for buffer in plan.outputs:
            self.allocate(buffer, self.shape(buffer.name), device)
        for step in plan.steps:
            match step:
                case Allocate(buffer=buffer, zeroed=zeroed):
                    self.buffers[buffer.name] = self.names.fresh(buffer.name)
                    self.layouts[buffer.name] = tuple((axis,) for axis in buffer.axes)
                    self.dtypes[buffer.name] = buffer.dtype
                    self.allocate(buffer, self.shape(buffer.name), device, "zeros" if zeroed else "empty")
                case Call():
                    self.call(step)
                case LibraryCall():
                    self.library(step)
        self.line(f"return {', '.join(self.buffers[buffer.name] for buffer in plan.outputs)}".rstrip())

    def over(self, divisor: Extent) -> str:
        text = self.extent(divisor)
        return "" if text == "1" else f" // {text}" if text.isalnum() else f" // ({text})"

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def spelled(self, buffer: Buffer) -> str:
        return (
            f"{buffer.dtype} " + " ".join(group[0] if len(group) == 1 else f"({' '.join(group)})" for group in self.layouts[buffer.name])
            if self.layouts[buffer.name]
            else buffer.dtype
        )

    def product(self, factors: Sequence[str]) -> str:
        return " * ".join(factors) or "1"

    def shape(self, buffer: str) -> str:
        dims = [self.product([self.size_name(axis) for axis in group]) for group in self.layouts[buffer]]
        return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"

    def allocate(self, buffer: Buffer, shape: str, device: str, how: str = "empty") -> None:
        self.line(f"{self.buffers[buffer.name]} = torch.{how}({shape}, dtype=torch.{_TORCH[buffer.dtype]}, device={device})")

    def scalar(self, scalar: Scalar, call: Call) -> str:
        match scalar.kind:
            case "size":
                return self.size_name(scalar.name)
            case "count":
                return self.extent(call.grid[scalar.position])
            case "stride":
                buffer = call.buffers[scalar.position]
                for dim, group in enumerate(self.layouts[buffer]):
                    if scalar.name in group:
                        inner = [self.size_name(axis) for axis in group[group.index(scalar.name) + 1 :]]
                        text = self.product([f"{self.buffers[buffer]}.stride({dim})", *inner])
                        return text if scalar.divisor == 1 else f"{text} // {scalar.divisor}"
                raise AssertionError(f"axis {scalar.name} is not in the layout of {buffer}")

    def call(self, step: Call) -> None:
        counts = [
            f"({text})" if " " in text and not text.startswith("triton.cdiv") else text
            for text in map(self.extent, step.grid)
            if text != "1"
        ]
        if step.early:
            self.line("running = programs")
        tiles = self.product(counts)
        launched = f"min({tiles}, {step.persistent})" if step.persistent else tiles
        self.line(f"programs = {launched}" + ("  # fastest varying first" if len(counts) > 1 else ""))
        arguments = [*(self.buffers[name] for name in step.buffers), *(self.scalar(scalar, step) for scalar in step.scalars)]
        arguments += [f"num_warps={step.num_warps}", f"num_stages={step.num_stages}"]
        arguments += [f"maxnreg={step.max_registers}"] if step.max_registers else []
        if step.early:
            arguments.append('**({"launch_pdl": True} if COMPILED and running else {})')
        if step.streaming:
            self.line(f"# {self.buffers[step.streaming]} should leave the cache first, which a launch by Triton cannot say.")
        self.line("if programs:")
        text = f"    {self.kernels[step.kernel]}[(programs,)]({', '.join(arguments)})"
        if len(text) <= 116:
            self.line(text)
            return
        self.line(f"    {self.kernels[step.kernel]}[(programs,)](")
        for argument in arguments:
            self.line(f"        {argument},")
        self.line("    )")

    def library(self, step: LibraryCall) -> None:
        """A product of two matrices as one, any other as einsum over the axes of each buffer, in the result's type."""
        sides = self.matrices(step)
        if sides is not None:
            self.line(f"torch.mm({sides[0]}, {sides[1]}, out={self.buffers[step.out]})")
            return
        letters: dict[str, str] = {}
        terms: list[str] = []
        for name in (*step.args, step.out):
            axes = [axis for group in self.layouts[name] for axis in group]
            for axis in axes:
                letters.setdefault(axis, chr(ord("a") + len(letters)))
            terms.append("".join(letters[axis] for axis in axes))
        out = self.view(step.out)
        operands = ", ".join(f"{self.view(name)}.to({self.buffers[step.out]}.dtype)" for name in step.args)
        self.line(f'{out}.copy_(torch.einsum("{",".join(terms[:-1])}->{terms[-1]}", {operands}))')

    def matrices(self, step: LibraryCall) -> tuple[str, str] | None:
        """The matrices to multiply, where the buffers have two axes each and one type."""
        layouts = {name: self.layouts[name] for name in (*step.args, step.out)}
        if any(len(layout) != 2 or any(len(group) != 1 for group in layout) for layout in layouts.values()) or len(step.args) != 2:
            return None
        axes = {name: [axis for group in layout for axis in group] for name, layout in layouts.items()}
        if len({self.dtypes[name] for name in axes}) > 1:
            return None
        if len(step.over) != 1:
            return None
        (k,), (m, n) = step.over, axes[step.out]

        def side(name: str, order: list[str]) -> str:
            return self.buffers[name] if axes[name] == order else f"{self.buffers[name]}.t()"

        for left, right in (step.args, tuple(reversed(step.args))):
            if set(axes[left]) == {m, k} and set(axes[right]) == {k, n}:
                return side(left, [m, k]), side(right, [k, n])
        return None

    def view(self, name: str) -> str:
        if all(len(group) == 1 for group in self.layouts[name]):
            return self.buffers[name]
        dims = [self.size_name(axis) for group in self.layouts[name] for axis in group]
        return f"{self.buffers[name]}.view({', '.join(dims)})"
