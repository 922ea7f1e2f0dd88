"""Whole programs become graphs that agree with PyTorch, with fixed and with dynamic sizes."""

from __future__ import annotations

import pytest

from tests.frontend.agreement import agrees, kinds, pattern, renames
from tests.frontend.programs import PROGRAMS

OTHER_SIZES = {"b": 2, "m": 1, "n": 3}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_fixed_sizes(name: str) -> None:
    program = PROGRAMS[name]
    captured = agrees(program.function, program.arguments())
    assert not captured.graph.symbols
    assert not renames(captured)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_dynamic_sizes(name: str) -> None:
    program = PROGRAMS[name]
    shapes = tuple(
        tuple(OTHER_SIZES[program.dynamic[at][d]] if d in program.dynamic.get(at, {}) else size for d, size in enumerate(shape))
        for at, shape in enumerate(program.shapes)
    )
    other = type(program)(program.function, shapes).arguments(seed=1)
    captured = agrees(program.function, program.arguments(), program.dynamic_shapes(), calls=[other])
    assert {symbol.name for symbol in captured.graph.symbols} == {name for dims in program.dynamic.values() for name in dims.values()}


@pytest.mark.parametrize("name", ["repeated_heads", "expanded_heads", "shared_heads", "shared_heads_causal"])
def test_repeated_heads_leave_no_operation(name: str) -> None:
    program = PROGRAMS[name]
    captured = agrees(program.function, program.arguments())
    assert [pattern(entry.layout) for entry in captured.graph.inputs] == ["(a b) c d", "a b c", "a b c"]
    assert kinds(captured).count("contract") == 2
    assert captured.graph.axis(captured.graph.inputs[1].axes[0]).extent.constant == 8


def test_axes_take_the_names_of_dynamic_dimensions() -> None:
    program = PROGRAMS["attention"]
    captured = agrees(program.function, program.arguments(), program.dynamic_shapes())
    assert [entry.layout for entry in captured.graph.inputs] == ["b h m d", "b h n d", "b h n e"]


def test_einsum_letters_name_axes() -> None:
    program = PROGRAMS["latent_attention"]
    captured = agrees(program.function, program.arguments())
    assert [entry.layout for entry in captured.graph.inputs] == ["b h d", "b n c", "h d c", "h e c"]


def test_places_are_the_lines_of_the_user() -> None:
    program = PROGRAMS["rms_norm_linear"]
    captured = agrees(program.function, program.arguments())
    first = program.function.__code__.co_firstlineno
    places = [place for op, place in zip(captured.graph.ops, captured.graph.places, strict=True) if op.kind == "contract"]
    assert places == [f"{program.function.__code__.co_filename}:{first + 3}"]
