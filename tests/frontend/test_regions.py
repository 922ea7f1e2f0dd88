"""Regions that change nothing of what is computed, as in the rotary embeddings of most models: the operators inside are compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from cleave.errors import CleaveError
from cleave.frontend import capture
from tests.frontend.agreement import agrees

Tensor = torch.Tensor
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def off(device: str) -> Callable[[Tensor], Any]:
    def function(x: Tensor) -> Tensor:
        with torch.autocast(device, enabled=False):
            out = x @ x.T
        return torch.softmax(out, -1) @ x

    return function


def recorded(x: Tensor) -> Tensor:
    with torch.enable_grad():
        return x * 2 + 1


def switched(x: Tensor) -> Tensor:
    with torch.set_grad_enabled(True):
        out = x.exp()
    return out / 2


def not_recorded(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x * 2


def nested(x: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        with torch.enable_grad():
            with torch.no_grad():
                out = x * 2
            out = out + x
        with torch.autocast("cuda", enabled=False):
            out = out * 3
        return out * out


def several_results(x: Tensor) -> tuple[Tensor, ...]:
    with torch.autocast("cpu", enabled=False):
        a, b = x + 1, x * 2
    with torch.enable_grad():
        c = a * b
    return c, b, a, x


def in_place(x: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        out = torch.zeros_like(x)
        out += x
        out.mul_(2)
    return out


def sizes(x: Tensor) -> Tensor:
    with torch.enable_grad():
        half = x[: x.shape[0] // 2] * x.shape[0]
    with torch.autocast("cpu", enabled=False):
        return half + x.new_ones(x.shape[0] // 2, 1)


def constants(x: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return x * torch.tensor(3.0) + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=x.dtype)


FUNCTIONS: Mapping[str, Callable[[Tensor], Any]] = {
    **{"cpu": off("cpu"), "cuda": off("cuda"), "enable_grad": recorded, "set_grad_enabled": switched, "no_grad": not_recorded},
    **{"nested": nested, "several_results": several_results, "in_place": in_place, "sizes": sizes, "constants": constants},
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dynamic_shapes, calls", [(None, []), (({0: "m"},), [(torch.randn(7, 6),)])])
def test_regions_that_change_nothing(name: str, dynamic_shapes: Any, calls: Any) -> None:
    agrees(FUNCTIONS[name], (X,), dynamic_shapes, calls)


def test_a_region_of_a_module() -> None:
    class Rotary(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("frequencies", torch.arange(1.0, 4.0))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            with torch.autocast(device_type=x.device.type, enabled=False):
                angles = x[:, :1].float() @ self.frequencies[None]  # type: ignore[operator, index]
                both = torch.cat((angles, angles), -1)
                return both.cos(), both.sin()

    agrees(Rotary(), (X,))


def test_a_gradient_that_is_taken_inside() -> None:
    def gradient(x: Tensor) -> Tensor:
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            return torch.autograd.grad((y * y * y).sum(), y)[0]

    agrees(gradient, (X,))


REFUSED: Mapping[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "view": (lambda x: x.t(), "t: returns a view of 'x'"),
    "write": (lambda x: x.add_(1), "add_: writes to 'x' in place"),
    "unsupported": (lambda x: x.cumsum(0), "cumsum: this operator is not supported"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_so_in_a_region(name: str) -> None:
    function, message = REFUSED[name]

    def within(x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return function(x)

    with pytest.raises(CleaveError, match=message) as caught:
        capture(within, (X,))
    assert str(caught.value).startswith(f"{__file__}:{function.__code__.co_firstlineno}: error: ")
