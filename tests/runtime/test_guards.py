"""What tensors a call takes the short way with: those like an earlier call's in everything but values and addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from cleave.runtime import guards
from cleave.runtime.guards import Guard, compared, guard
from cleave.runtime.versions import Shortcuts, shortcuts

MAKERS = pytest.mark.parametrize("make", [guard, compared], ids=["torch", "python"])
Maker = Callable[[list[torch.Tensor]], Guard]


class Own(torch.Tensor):
    """A subclass."""


def like(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(24).to(dtype).view(4, 6)


OTHERS: Mapping[str, Callable[[], object]] = {
    "a number": lambda: 3,
    "nothing": lambda: None,
    "type": lambda: like(torch.float16),
    "type of the same width": lambda: like(torch.int32),
    "shape": lambda: torch.zeros(6, 4),
    "dimensions": lambda: like().view(4, 6, 1),
    "strides": lambda: torch.zeros(6, 4).t(),
    "gap between rows": lambda: torch.zeros(4, 8)[:, :6],
    "repeated rows": lambda: torch.zeros(6).expand(4, 6),
    "gradient": lambda: like().requires_grad_(),
    "device": lambda: torch.empty(4, 6, device="meta"),
    "sparse": lambda: like().to_sparse(),
    "subclass": lambda: like().as_subclass(Own),
    "parameter": lambda: torch.nn.Parameter(like(), requires_grad=False),
    "negated view": lambda: torch.zeros(4, 6, dtype=torch.complex64).conj().imag[:, :6].as_strided((4, 6), (6, 1)),
    "symbolic": lambda: FakeTensorMode().from_tensor(like()),
}


@MAKERS
@pytest.mark.parametrize("name", OTHERS)
def test_another_tensor_is_refused(make: Maker, name: str) -> None:
    """In either place, where the other is right."""
    accepts = make([like(), like()])
    other = OTHERS[name]()
    assert accepts(like() + 1, like())
    assert not accepts(other, like())
    assert not accepts(like(), other)


@MAKERS
def test_conjugated_views_are_told_apart(make: Maker) -> None:
    plain = torch.zeros(3, dtype=torch.complex64)
    assert make([plain])(plain.clone()) and not make([plain])(plain.conj())
    assert make([plain.conj()])(plain.clone().conj()) and not make([plain.conj()])(plain)


def test_the_negated_view_is_one() -> None:
    """Else the case above would show nothing."""
    made = OTHERS["negated view"]()
    assert isinstance(made, torch.Tensor) and made.is_neg() and made.stride() == (6, 1)


@MAKERS
def test_one_object_in_two_places(make: Maker) -> None:
    """Refused or accepted where the example has two; accepted, as two are, where it has one twice."""
    x = like()
    twice = make([x, x])
    assert twice(x, x) and twice(x, like()) and not twice(x, torch.zeros(4, 7))
    assert make([like(), like()])(like(), like())


@MAKERS
def test_modes_do_not_let_a_gradient_through(make: Maker) -> None:
    """Made in any mode, used in any: one that requires a gradient is another tensor."""
    for made in (torch.enable_grad, torch.no_grad):
        with made():
            accepts = make([like()])
        for used in (torch.enable_grad, torch.no_grad):
            with used():
                assert accepts(like()) and not accepts(like().requires_grad_())


def test_inference_tensors_are_refused_by_torch_where_the_example_is_none() -> None:
    with torch.inference_mode():
        inner, made = guard([like()]), like()
        assert inner(like())
    assert not guard([like()])(made)


def test_a_version_that_was_not_tried_is_compared_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shortcuts("2.14.0") == "torch 2.14.0 was not tried, only 2.11 to 2.13"
    assert shortcuts("3.0") == "torch 3.0 was not tried, only 2.11 to 2.13"
    for text in ("2.11.0+cu128", "2.13.1"):
        assert isinstance(shortcuts(text), Shortcuts)
    monkeypatch.setattr(guards, "shortcuts", lambda: shortcuts("2.10.0"))
    made = guard([like()])
    assert made.__qualname__ == compared([like()]).__qualname__
    assert made(like()) and not made(like().t())
