"""
Random programs of views, elementwise operators, products, reductions, slices and joins agree with PyTorch.

A program is drawn as text, so that a failing one can be pasted into a test.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.frontend.agreement import agrees

Tensor = torch.Tensor
SIZES = (2, 3, 4, 6)


class Drawing:
    """A program under construction: its lines, and the tensors that its names stand for."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.tensors: dict[str, Tensor] = {}
        for at in range(2):
            shape = [self.random.choice(SIZES) for _ in range(self.random.randint(1, 3))]
            self.tensors[f"x{at}"] = torch.randn(shape, generator=torch.Generator().manual_seed(seed + at))
        self.arguments = list(self.tensors)

    def pick(self) -> str:
        return self.random.choice(list(self.tensors))

    def write(self, expression: str) -> None:
        """Adds a line, unless its value is too large or has too many dimensions."""
        value = eval(expression, {"torch": torch}, dict(self.tensors))
        if value.numel() <= 2000 and value.dim() <= 5:
            name = f"t{len(self.lines)}"
            self.tensors[name] = value
            self.lines.append(f"{name} = {expression}")

    def shaped(self, count: int) -> list[int]:
        """A random factoring of a number of elements."""
        shape: list[int] = []
        while count > 1:
            divisors = [d for d in range(2, count + 1) if count % d == 0]
            size = self.random.choice(divisors)
            shape.append(size)
            count //= size
        while self.random.random() < 0.2:
            shape.insert(self.random.randint(0, len(shape)), 1)
        return shape

    def reshape(self) -> None:
        name = self.pick()
        self.write(f"{name}.reshape({self.shaped(self.tensors[name].numel())})")

    def permute(self) -> None:
        name = self.pick()
        order = list(range(self.tensors[name].dim()))
        self.random.shuffle(order)
        if order:
            self.write(f"{name}.permute({order})")

    def unary(self) -> None:
        self.write(f"{self.pick()}.{self.random.choice(['tanh', 'sigmoid', 'sin', 'neg', 'square'])}()")

    def binary(self) -> None:
        name = self.pick()
        shape = self.tensors[name].shape
        others = [other for other, tensor in self.tensors.items() if tensor.numel() == self.tensors[name].numel()]
        other = self.random.choice(others)
        self.write(f"{name} {self.random.choice(['+', '*', '-'])} {other}.reshape({list(shape)})")

    def broadcast(self) -> None:
        left, right = self.pick(), self.pick()
        try:
            torch.broadcast_shapes(self.tensors[left].shape, self.tensors[right].shape)
        except RuntimeError:
            return
        self.write(f"{left} * {right}")

    def transposed(self) -> None:
        name = self.pick()
        tensor = self.tensors[name]
        if tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2]:
            self.write(f"{name} + {name}.mT")
        elif tensor.dim() >= 2:
            self.write(f"{name} @ {name}.mT")

    def product(self) -> None:
        left, right = self.pick(), self.pick()
        a, b = self.tensors[left], self.tensors[right]
        if a.dim() and b.dim() >= 2 and a.shape[-1] == b.shape[-2] and b.dim() == 2:
            self.write(f"{left} @ {right}")
        elif a.dim() and b.dim() and b.numel() % a.shape[-1] == 0:
            self.write(f"{left} @ {right}.reshape({a.shape[-1]}, {b.numel() // a.shape[-1]})")

    def dim(self, name: str) -> int | None:
        rank = self.tensors[name].dim()
        return self.random.randrange(rank) if rank else None

    def reduce(self) -> None:
        name = self.pick()
        dim = self.dim(name)
        if dim is not None:
            kind = self.random.choice(["sum", "mean", "amax", "softmax"])
            keep = "" if kind == "softmax" else f", keepdim={self.random.random() < 0.5}"
            self.write(f"{name}.{kind}({dim}{keep})")

    def spread(self) -> None:
        name = self.pick()
        dim = self.dim(name)
        if dim is None:
            return
        shape = list(self.tensors[name].shape)
        choice = self.random.randrange(3)
        if choice == 0:
            shape.insert(dim, self.random.choice((2, 3)))
            self.write(f"{name}.unsqueeze({dim}).expand({shape})")
        elif choice == 1:
            self.write(f"{name}.repeat_interleave(2, {dim})")
        else:
            self.write(f"{name}.repeat({[2 if at == dim else 1 for at in range(len(shape))]})")

    def slice(self) -> None:
        name = self.pick()
        dim = self.dim(name)
        if dim is None:
            return
        size = self.tensors[name].shape[dim]
        start = self.random.randrange(size)
        choice = self.random.randrange(4)
        if choice == 0:
            self.write(f"{name}.select({dim}, {start})")
        elif choice == 1:
            self.write(f"{name}.narrow({dim}, {start}, {self.random.randint(1, size - start)})")
        elif choice == 2 and size % 2 == 0:
            self.write(f"torch.cat({name}.chunk(2, {dim})[::-1], {dim})")
        else:
            self.write(f"{name}[{':, ' * dim}{start % 2}::2]")

    def join(self) -> None:
        name = self.pick()
        dim = self.dim(name)
        if dim is None:
            return
        shape = self.tensors[name].shape
        others = [other for other, tensor in self.tensors.items() if tensor.numel() == self.tensors[name].numel()]
        other = self.random.choice(others)
        if self.random.random() < 0.5:
            self.write(f"torch.stack(({name}, {other}.reshape({list(shape)})), {dim})")
        else:
            size = self.random.randint(1, shape[dim])
            self.write(f"torch.cat(({name}, {other}.reshape({list(shape)}).narrow({dim}, 0, {size})), {dim})")

    def mask(self) -> None:
        name = self.pick()
        if self.tensors[name].dim() >= 2:
            self.write(f"{name}.{self.random.choice(['tril', 'triu'])}({self.random.randint(-1, 1)})")

    def draw(self, length: int) -> str:
        """The program's text, of a function `program`."""
        steps: list[Callable[[], None]] = [
            self.reshape, self.reshape, self.permute, self.permute, self.unary, self.binary, self.binary, self.broadcast, self.transposed,
            self.product, self.product, self.reduce, self.spread, self.slice, self.join, self.mask,
        ]  # fmt: skip
        for _ in range(length):
            self.random.choice(steps)()
        results = [name for name in self.tensors if name not in self.arguments][-3:]
        body = "\n".join(f"    {line}" for line in self.lines)
        returned = ", ".join(f"{name} * 2" for name in results) or "x0 * 2"
        return f"def program({', '.join(self.arguments)}):\n{body}\n    return ({returned},)\n"


def drawn(seed: int, length: int = 8) -> tuple[str, Callable[..., Any], tuple[Tensor, ...]]:
    """A program's text, the function, and its arguments."""
    drawing = Drawing(seed)
    text = drawing.draw(length)
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(text, "<random program>", "exec"), scope)
    return text, scope["program"], tuple(drawing.tensors[name] for name in drawing.arguments)


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_random_programs_agree(start: int) -> None:
    """A dozen operators of float64 on numbers below 1e6 stay within 1e-7 of each other relative to the largest."""
    for seed in range(start, start + 20):
        text, program, args = drawn(seed)
        try:
            agrees(program, args, tolerance=1e-7)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{text}") from error
