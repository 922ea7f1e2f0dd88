"""Pipelines in xDSL's and in MLIR's form, and the options of passes."""

from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cleave.pipelines import Option, PipelineError, build, mlir_specs, options_of, specs, summary_of


@dataclass(frozen=True)
class SampleOnePass(ModulePass):
    """
    Does nothing, on request.

    More about it.
    """

    name = "sample-one"

    sizes: tuple[int, ...] = (1, 2)
    """Sizes to try."""

    tile_size: int | None = None
    """Elements
    of a tile."""

    fast: bool = False

    factor: float = 2.0

    text: str = ""

    kind: str = "rules"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Leaves the module as it is."""


@pytest.mark.parametrize(
    "text",
    [
        "builtin.module(a{x=4 y=f},b)",
        " builtin.module ( a { x=4  y=f } , b ) ",
        "builtin.module(a{x = 4 y=f}, b)",
    ],
)
def test_both_forms_mean_the_same(text: str) -> None:
    assert mlir_specs(text) == specs("a{x=4 y=f},b")


def test_quoted_values_are_kept_as_they_are() -> None:
    (entry,) = mlir_specs('builtin.module(a{text="f(x),  {y" n=1})')
    assert entry.parameters == {"text": ("f(x),  {y",), "n": (1,)}


def test_an_empty_pipeline_is_one() -> None:
    assert mlir_specs("builtin.module()") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b", "does not start with an anchor; write builtin.module(a,b)"),
        ("builtin.module(a,func.func(b))", "nested anchor 'func.func' at column 18"),
        ("builtin.module(a", "lacks a closing parenthesis"),
        ("builtin.module(a) b", "unexpected 'b' after the pipeline"),
        ("builtin.module(a{x=})", "Unknown argument value"),
        ("builtin.module(a;b)", "Unknown token"),
    ],
)
def test_malformed_pipelines_are_refused(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        mlir_specs(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_passes_take_their_options() -> None:
    names = {"sample-one": lambda: SampleOnePass}
    (made,) = build(names, specs("sample-one{sizes=3,4 tile-size=8 fast=true factor=1e3 text=f}"))
    assert made == SampleOnePass(sizes=(3, 4), tile_size=8, fast=True, factor=1000.0, text="f")
    (made,) = build(names, specs("sample-one{sizes=3 tile-size factor=3}"))
    assert made == SampleOnePass(sizes=(3,), tile_size=None, factor=3.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample-two", "no pass is named 'sample-two'"),
        ("sample-one{tiles=1}", "sample-one has no option 'tiles'; its options: sizes, tile-size, fast, factor, text, kind"),
        ("sample-one{fast=3}", "sample-one: option fast is 3; write true or false, as in fast=false"),
        ("sample-one{fast}", "sample-one: option fast has no value; write true or false, as in fast=false"),
        ("sample-one{factor=inf}", "sample-one: option factor is inf; write a finite number, as in factor=2.0"),
        ("sample-one{factor=-inf}", "option factor is -inf; write a finite number"),
        ("sample-one{factor=nan}", "option factor is nan; write a finite number"),
        ("sample-one{factor=9.0e999}", "option factor is inf; write a finite number"),
        ("sample-one{factor=true}", "option factor is true; write a finite number"),
        ("sample-one{factor=much}", "option factor is much; write a finite number"),
        ("sample-one{tile_size=1.5}", "sample-one: option tile_size is 1.5; write an integer, as in tile_size=1"),
        ("sample-one{tile-size=true}", "option tile-size is true; write an integer, as in tile-size=1"),
        ("sample-one{tile-size=1,2}", "option tile-size is 1,2; write an integer"),
        ("sample-one{sizes=1,x}", "option sizes is 1,x; write an integer, or more of them with commas between, as in sizes=1,2"),
        ("sample-one{sizes}", "option sizes has no value"),
        ("sample-one{text=1}", 'option text is 1; write text in quotes, as in text="1"'),
        ("sample-one{kind=1}", 'option kind is 1; write text in quotes, as in kind="rules"'),
    ],
)
def test_unknown_passes_and_options_are_refused(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        build({"sample-one": lambda: SampleOnePass}, specs(text))
    assert message in str(caught.value)


def test_options_carry_their_documentation() -> None:
    assert options_of(SampleOnePass) == (
        Option("sizes", "tuple[int, ...]", "1,2", "Sizes to try."),
        Option("tile-size", "int | None", "none", "Elements of a tile."),
        Option("fast", "bool", "false", ""),
        Option("factor", "float", "2.0", ""),
        Option("text", "str", "", ""),
        Option("kind", "str", "rules", ""),
    )
    assert summary_of(SampleOnePass) == "Does nothing, on request."


def test_an_integer_is_a_float_where_one_is_wanted() -> None:
    @dataclass(frozen=True)
    class TimedPass(ModulePass):
        name = "timed"
        seconds: float = 1.5
        rounds: int = 1

        def apply(self, ctx: Context, op: ModuleOp) -> None: ...

    (made,) = build({"timed": lambda: TimedPass}, specs("timed{seconds=0 rounds=2}"))
    assert made == TimedPass(0.0, 2)
    with pytest.raises(PipelineError, match="timed"):
        build({"timed": lambda: TimedPass}, specs("timed{rounds=2.5}"))
