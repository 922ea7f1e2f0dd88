"""What `compile` refuses: options out of range, and arguments that want gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import cleave
from cleave import CleaveError


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize(
    "option",
    [
        {"split": "yes"},
        {"alternatives": -1},
        {"seed": "x"},
        {"seed": True},
        {"cache": 1},
        {"budget": "x"},
        {"budget": float("nan")},
        {"candidates": 0},
        {"tune": "always"},
    ],
)
def test_options_out_of_range_are_named(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(ValueError, match=f"option {name} is"):
        cleave.compile(doubled, torch.ones(3), **option)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match="unknown option 'tuned'"):
        cleave.compile(doubled, torch.ones(3), tuned=True)
    with pytest.raises(TypeError, match=r"unknown option 'weigths'; known are dynamic_shapes, hints, weights, target, split"):
        cleave.compile(doubled, torch.ones(3), weigths=("x",))


def test_weights_are_names_and_no_text() -> None:
    with pytest.raises(TypeError, match=r"weights=0; give a sequence of names or positions, as in weights=\(0,\)"):
        cleave.compile(doubled, torch.ones(3), weights=0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"weights='x'; give a sequence of names or positions, as in weights=\('x',\)"):
        cleave.compile(doubled, torch.ones(3), weights="x")


def test_a_cache_that_cannot_be_written_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CLEAVE_CACHE_DIR", str(tmp_path / "file"))
    told = f"nothing is kept for the next time, {tmp_path / 'file'} cannot be written"
    assert told in str(cleave.compile(doubled, torch.ones(5)).report())
    assert told not in str(cleave.compile(doubled, torch.ones(5), cache=False).report())
    monkeypatch.setenv("CLEAVE_CACHE_DIR", str(tmp_path / "folder"))
    assert told not in str(cleave.compile(doubled, torch.ones(5)).report())


def test_gradients_are_refused_and_not_dropped() -> None:
    compiled = cleave.compile(doubled, torch.ones(3))
    wants = torch.ones(3, requires_grad=True)
    with pytest.raises(CleaveError, match="gradient"):
        compiled(wants)
    with torch.no_grad():
        assert torch.equal(compiled(wants), torch.full((3,), 2.0))
    assert torch.equal(compiled(wants.detach()), torch.full((3,), 2.0))


def test_a_compiled_function_is_told_in_a_line() -> None:
    assert repr(cleave.compile(doubled, torch.ones(4, 8), cache=False)) == "<doubled, compiled to doubled_kernel>"
