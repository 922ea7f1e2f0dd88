"""Every mistake in a text is one located line."""

import random
import re
import string
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc
from xdsl.universe import XDSL_UNIVERSE

from cleave.errors import CleaveError, place_of
from cleave.parsing import parse_module, verify
from cleave.universe import CLEAVE_UNIVERSE

PROGRAM = """\
func.func @f(%a : i32, %b : tensor<4x?xf32>) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = "test.op"(%0) <{"value" = dense<1.0> : tensor<4xf32>}> {"x" = [1, "two", @three]} : (i32) -> i32
  scf.if %c {
    scf.yield
  }
  func.return %0 : i32
}
"""
DIALECTS = Path(__file__).parent.parent / "lit_tests" / "dialects"
LINE = re.compile(r"\Ain\.mlir:\d+:\d+: error: [^\n]+\Z")


def context() -> Context:
    """All dialects, loaded when met."""
    ctx = Context()
    for universe in (XDSL_UNIVERSE, CLEAVE_UNIVERSE):
        for name, dialect in universe.all_dialects.items():
            ctx.register_dialect(name, dialect)
    return ctx


def message(text: str | bytes, first_line: int = 1) -> str:
    with pytest.raises(CleaveError) as caught:
        verify(parse_module(context(), text, "in.mlir", first_line=first_line))
    return str(caught.value)


def test_operations_know_where_they_stand() -> None:
    module = parse_module(context(), "func.func @f() {\n  func.return\n}\n", "in.mlir", first_line=10)
    assert [place_of(op) for op in module.walk()] == ["in.mlir:10:1", "in.mlir:10:1", "in.mlir:11:3"]


def test_a_location_in_the_text_wins() -> None:
    module = parse_module(context(), 'func.func @f() {\n  func.return\n} loc("model.py":7:2)', "in.mlir")
    (function,) = module.ops
    assert isinstance(function.location, FileLineColLoc)
    assert place_of(function) == "model.py:7:2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("func.func @f() {\n  arith.foo\n}", "in.mlir:2:3: error: arith.foo: the operation is not registered"),
        ("func.func @f() {\n  func.return %x : i32\n}", "in.mlir:2:15: error: %x is used but not defined"),
        ("func.func @f(%a: i32) {\n  func.return %a : i64\n}", "in.mlir:2:15: error: func.return: operand is used with type i64"),
        ("func.func @f() -> i32 {\n  func.return\n}", "in.mlir:2:3: error: func.return: Expected arguments to have the same types"),
        ("func.func @f(%a: vector<4xindex>) {\n  %0 = arith.addf %a, %a : i32\n}", "in.mlir:2:3: error: arith.addf: Unexpected attribute"),
        ("func.func @f() {}\n}", "in.mlir:2:1: error: expected an operation, found '}'"),
        ("// nothing\n", "in.mlir:2:1: error: no operation in the input"),
        (b"func.func @f() {\n  \xff }", "in.mlir:2:3: error: byte 0xff is not UTF-8 text"),
        ("%0 = arith.addi %1, %1 : i32\n%1 = arith.constant 1 : i32", "in.mlir:1:1: error: arith.addi: operand 0 is used before"),
        ('"test.op"() {a = "' + "x" * 5000, "in.mlir:1:18: error: test.op: End of file reached"),
        ("func.func @f(%a: vector<-4xf32>) {\n}", "in.mlir:1:"),
        ("[" * 100000, "in.mlir:1:1: error: "),
        ('"test.op"() {a = ' + "[" * 5000, "in.mlir:1:"),
    ],
)  # fmt: skip
def test_mistakes_are_located(text: str | bytes, expected: str) -> None:
    found = message(text)
    assert found.startswith(expected)
    assert LINE.match(found)


def test_hexadecimal_floats_in_dense_literals_are_bits() -> None:
    text = "%0 = arith.constant dense<0xFF800000> : tensor<4xf32>\n%1 = arith.constant dense<[0x7FC0, 1.5]> : tensor<2xbf16>\n"
    printed = str(parse_module(context(), text, "in.mlir"))
    assert "dense<0xff800000> : tensor<4xf32>" in printed
    assert "dense<[0x7fc0, 1.500000e+00]> : tensor<2xbf16>" in printed
    assert message("%0 = arith.constant dense<0x1FF800000> : tensor<4xf32>").startswith("in.mlir:1:27: error: arith.constant: hexadecimal")


def test_first_line_counts() -> None:
    assert message("func.func @f() {\n  arith.foo\n}", first_line=41).startswith("in.mlir:42:3: error: arith.foo")
    assert message(b"\n\xff", first_line=41).startswith("in.mlir:42:1: error: byte")


def mutated(program: str, seed: int) -> str | bytes:
    """The program cut, with something replaced, removed, swapped or inserted, or noise in its place."""
    draw = random.Random(seed)
    tokens = re.findall(r"\s+|[%@!#^]?[\w.]+|[^\w\s]", program)
    at = draw.randrange(len(tokens))
    match seed % 6:
        case 0:
            return program[: draw.randrange(len(program))]
        case 1:
            return "".join(tokens[:at] + tokens[at + 1 :])
        case 2:
            return "".join([*tokens[:at], draw.choice(tokens), *tokens[at + 1 :]])
        case 3:
            return "".join([*tokens[:at], draw.choice(string.punctuation) * draw.randrange(1, 4), *tokens[at:]])
        case 4:
            return draw.randbytes(draw.randrange(1, 200))
        case _:
            return "".join(draw.choices(string.printable, k=draw.randrange(1, 200)))


def refusals(program: str, count: int) -> list[str]:
    """The messages of `count` mutants that are refused; mutants that happen to be programs are passed over."""
    ctx = context()
    found: list[str] = []
    seed = 0
    while len(found) < count:
        assert seed < 20 * count, "most mutants are malformed"
        try:
            verify(parse_module(ctx, mutated(program, seed), "in.mlir"))
        except CleaveError as error:
            found.append(str(error))
        seed += 1
    return found


@pytest.mark.parametrize("path", [None, *(DIALECTS / f"{name}.mlir" for name in CLEAVE_UNIVERSE.all_dialects)])
def test_malformed_text_gives_a_located_line(path: Path | None) -> None:
    """Cut, changed and random texts of every dialect's own test file."""
    program = PROGRAM if path is None else max(path.read_text().split("// -----"), key=len)
    for found in refusals(program, 200):
        assert LINE.match(found), found
