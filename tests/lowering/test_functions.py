"""Every elementwise operation of `sched` through Triton under the interpreter, against its numpy meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cleave.bridge.sched import module_of
from cleave.dialects import sched, tt
from cleave.extents import extent
from cleave.reference.sched import run_program
from cleave.runtime.compile import compile_module, compile_ttir
from cleave.runtime.execute import executable, execute
from cleave.runtime.interpreter import INTERPRETER
from cleave.runtime.plan import calls
from cleave.schedule.program import Buffer, Carried, For, Kernel, Launch, Program, TileType, Var
from tests.tile_programs import Body, scalar

FLOATS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 1e-5, -1e-5, 0.1, -0.2, 0.24, 0.26, 3.0, -3.0, 10.0, -10.0, 88.0], np.float64)
POSITIVE = ("log", "log1p", "log2", "sqrt", "rsqrt")
UNARY = [kind.name.removeprefix("sched.") for kind in sched.ELEMENTWISE if issubclass(kind, sched.FloatUnaryOp | sched.NumberUnaryOp)]


def program(kind: str, dtype: str, operands: int, attr: tuple[Any, ...] = (), result: str = "") -> Program:
    """out[n] = kind(x0[n], x1[n], ...) on one tile of 16."""
    given = [Buffer(f"x{i}", ("n",), dtype, (1,)) for i in range(operands)]
    out = Buffer("out", ("n",), result or dtype, (1,))
    body = Body()
    n = body.range("n", 16, body.constant(0, "index", "zero"))
    tiles = [body.load(buffer.name, buffer, n=n) for buffer in given]
    body.store(out, body.let("y", kind, *tiles, attr=attr, dtype=result or dtype), n=n)
    buffers = (*given, out)
    kernel = Kernel("k", buffers, ("out",), (), (), (), tuple(body.statements), 1)
    launch = Launch("k", tuple(buffer.name for buffer in buffers))
    return Program("f", tuple(given), (out,), ("n",) * len(buffers), (("n", extent(16)),), (kernel,), (launch,))


def compared(made: Program, inputs: list[Any], rtol: float, atol: float = 0.0) -> None:
    (expected,) = run_program(made, inputs, {}, rounding=True)
    (result,) = execute(made, inputs)
    np.testing.assert_allclose(np.asarray(result, np.float64), np.asarray(expected, np.float64), rtol=rtol, atol=atol)


@pytest.mark.parametrize("kind", UNARY)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_unary(kind: str, dtype: str) -> None:
    """
    Four units in the last place of f32 or f64, which 16-bit types round to at most one of theirs; gelu cancels for negative
    operands as torch's does, and erfc of f64 for positive ones, so there it is absolute.
    """
    x = np.abs(FLOATS) if kind in POSITIVE else FLOATS
    cancels = kind in ("gelu", "gelu_tanh", "log", "log2", "sin", "cos") or (kind, dtype) == ("erfc", "f64")
    small = 1e-15 if dtype == "f64" else 1e-6
    bound = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-21, "f64": 2.0**-50}[dtype]
    compared(program(kind, dtype, 1), [x], bound, small if cancels else 1e-30)


@pytest.mark.parametrize("kind", ["sigmoid", "silu", "tanh", "exp", "exp2", "relu"])
def test_infinities(kind: str) -> None:
    """No NaN but where the function has one (silu of -inf is -inf times 0)."""
    compared(program(kind, "f32", 1), [np.array([np.inf, -np.inf, np.nan, 200.0, -200.0, 1e4, -1e4, 0.0] * 2)], 1e-6, 1e-30)


@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div", "max", "min", "pow", "floordiv", "mod"])
def test_binary_on_floats(kind: str) -> None:
    """Rounded once, but for pow, whose exponent log2 carries a relative error of |y log2 x| units."""
    rng = np.random.default_rng(1)
    a, b = np.rint(rng.uniform(-6, 6, 16)), np.rint(rng.uniform(1, 5, 16)) * np.array([1, -1] * 8)
    compared(program(kind, "f32", 2), [a, b], 4e-6 if kind == "pow" else 2.0**-22)


@pytest.mark.parametrize("kind", ["floordiv", "mod"])
def test_division_with_remainder_near_multiples_and_of_large_quotients(kind: str) -> None:
    """As fmod has it, where a rounded quotient would be a multiple too far."""
    a = np.array([1.0, 2.0, 0.3, 0.7, 1e8, 1e12, 0.0, -1.0, 1.0, -1.0, -0.3, np.inf, 1.0, -1.0, 1.0, np.nan], np.float32)
    b = np.array([0.1, 0.2, 0.1, 0.1, 3.0, 7.0, 0.3, 0.1, -0.1, -0.1, 1e9, 2.0, np.inf, np.inf, 0.0, 1.0], np.float32)
    compared(program(kind, "f32", 2), [a, b], 0.0 if kind == "mod" else 2.0**-23)


def test_a_gpu_takes_the_remainder_without_rounding_the_product() -> None:
    """Printed as Python and as TTIR."""
    ready = executable(program("mod", "f32", 2))
    (call,) = calls(ready.plan)
    func = next(op for op in ready.module.ops if isinstance(op, tt.FuncOp))
    for compiled in (*compile_module(ready.module, "sm_90"), compile_ttir(ready.module, func, call, "sm_90")):
        text = str(compiled.asm["ptx"])
        assert (text.count("div.rn.f32"), text.count("fma.rn.f32")) == (2, 2)


def test_a_power_of_a_negative_number_is_nan_unless_the_exponent_is_an_integer() -> None:
    a = np.array([-2.0, -2.0, -2.0, 0.0, 0.0, 4.0, 4.0, -1.0] * 2)
    b = np.array([3.0, 2.0, 0.5, 0.0, 2.0, 0.5, -0.5, -3.0] * 2)
    compared(program("pow", "f32", 2), [a, b], 4e-6)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "max", "min", "floordiv", "mod", "and", "or"])
def test_binary_on_integers(kind: str, dtype: str) -> None:
    """Floor division and remainder of all four combinations of signs."""
    a, b = np.arange(-8, 8), np.array([3, -3, 2, -5] * 4)
    compared(program(kind, dtype, 2), [a, b], 0.0)


@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("dtype", ["f32", "i32", "i1"])
def test_comparisons(predicate: str, dtype: str) -> None:
    """NaN is only unequal; booleans compare as 0 and 1."""
    a = np.array([0, 1, 0, 1] * 4)
    b = np.array([0, 0, 1, 1] * 4)
    if dtype == "f32":
        a = a * np.where(np.arange(16) < 8, 1, np.nan)
    compared(program("compare", dtype, 2, (predicate,), "i1"), [a, b], 0.0)


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32", "f16"), ("f16", "f32"), ("f32", "bf16"), ("f16", "bf16"), ("bf16", "f16"), ("f32", "i32"), ("i32", "f32"), ("i1", "f32"),
     ("i1", "i32"), ("f32", "i1"), ("i32", "i1"), ("i32", "i64"), ("i64", "i32")],
)  # fmt: skip
def test_casts(source: str, target: str) -> None:
    """To nearest even between floats, towards zero to integers, 0 or 1 from booleans."""
    x = np.array([0.0, 1.0, -1.0, 2.5, -2.5, 1.0009765625, 1.00390625, 3.14159, 100.7, -100.7, 65504.0, 1e-3, 7, 8, 9, 10])
    compared(program("cast", source, 1, (), target), [x != 0 if source == "i1" else x], 0.0)


def test_not() -> None:
    compared(program("not", "i1", 1), [np.array([True, False] * 8)], 0.0)
    compared(program("not", "i32", 1), [np.arange(-8, 8)], 0.0)


def test_operands_in_another_order_of_dimensions_are_transposed() -> None:
    """a[n, m] and b[m] and a scalar meet in [m, n]; a broadcast adds a dimension of size one."""
    a, b, out = Buffer("a", ("n", "m"), "f32", (8, 1)), Buffer("b", ("m",), "f32", (1,)), Buffer("out", ("m", "n"), "f32", (16, 1))
    body = Body()
    zero = body.constant(0, "index", "zero")
    m, n = body.range("m", 8, zero), body.range("n", 16, zero)
    x, y = body.load("x", a, n=n, m=m), body.load("y", b, m=m)
    dims = (("m", 8), ("n", 16))
    z = body.let("z", "sub", x, y, dims=dims)
    z = body.let("w", "mul", z, body.constant(2.0, "f32"), dims=dims)
    full = Var("full", TileType((("b", 1), *dims), "f32"))
    body.let("unused", "broadcast", z, dims=full.type.dims)
    body.store(out, z, m=m, n=n)
    kernel = Kernel("k", (a, b, out), ("out",), (), (), (), tuple(body.statements), 1)
    sizes = (("m", extent(8)), ("n", extent(16)))
    made = Program("f", (a, b), (out,), ("n m", "m", "m n"), sizes, (kernel,), (Launch("k", ("a", "b", "out")),))
    rng = np.random.default_rng(0)
    inputs = [np.rint(rng.uniform(-9, 9, (16, 8))), np.rint(rng.uniform(-9, 9, 8))]
    compared(made, inputs, 0.0)
    (result,) = execute(made, inputs)
    np.testing.assert_array_equal(result, 2 * (inputs[0].T - inputs[1][:, None]))


def test_a_batch_of_products_and_booleans_in_memory() -> None:
    """dot over three dimensions; the mask is read and the sign written as bytes."""
    a, b = Buffer("a", ("h", "m", "k"), "f16", (None, 16, 1)), Buffer("b", ("h", "k", "n"), "f16", (None, 16, 1))
    keep, out, sign = (
        Buffer(name, ("h", "m", "n"), dtype, (None, 16, 1)) for name, dtype in (("keep", "i1"), ("out", "f32"), ("sign", "i1"))
    )
    body = Body()
    zero = body.constant(0, "index", "zero")
    h, m, n, k = (body.range(dim, size, zero) for dim, size in (("h", 2), ("m", 16), ("n", 16), ("k", 16)))
    product = body.dot("product", body.load("x", a, h=h, m=m, k=k), body.load("y", b, h=h, k=k, n=n), "k")
    live = body.load("live", keep, h=h, m=m, n=n)
    kept = body.let("kept", "select", live, product, body.constant(0.0, "f32"), dims=product.type.dims)
    body.store(out, kept, h=h, m=m, n=n)
    body.store(sign, body.let("positive", "compare", kept, body.constant(0.0, "f32"), attr=("gt",)), h=h, m=m, n=n)
    buffers = (a, b, keep, out, sign)
    kernel = Kernel("k", buffers, ("out", "sign"), (), (), (), tuple(body.statements), 4)
    sizes = tuple((axis, extent(size)) for axis, size in (("h", 2), ("m", 16), ("n", 16), ("k", 16)))
    layouts = ("h m k", "h k n", "h m n", "h m n", "h m n")
    made = Program("f", buffers[:3], buffers[3:], layouts, sizes, (kernel,), (Launch("k", tuple(x.name for x in buffers)),))
    rng = np.random.default_rng(0)
    inputs = [np.rint(rng.uniform(-4, 4, (2, 16, 16))), np.rint(rng.uniform(-4, 4, (2, 16, 16))), rng.uniform(0, 1, (2, 16, 16)) < 0.5]
    result, positive = execute(made, inputs)
    expected = np.where(inputs[2], inputs[0] @ inputs[1], 0)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(positive, expected > 0)
    arrays = [inputs[0].astype(np.float16), inputs[1].astype(np.float16), inputs[2]]
    for one, other in zip(INTERPRETER.launch(executable(made).file.text, arrays), (result, positive), strict=True):
        np.testing.assert_array_equal(one, other)
    (compiled,) = compile_module(executable(made).module, "sm_90")
    assert compiled.spills == 0


def test_a_loop_index_is_a_value() -> None:
    """The sum over k of k, of k // 3 and of k where k is odd, all from the index of the loop itself."""
    out = Buffer("out", ("n",), "i64", (1,))
    top, inner = Body(), Body()
    zero = top.constant(0, "index", "zero")
    stop = top.constant(10, "index", "stop")
    start = top.constant(0, "i64", "start")
    index, held, done = scalar("k"), scalar("total", "i64"), scalar("sum", "i64")
    odd = inner.let("odd", "compare", inner.let("low", "mod", index, inner.constant(2, "index")), inner.constant(1, "index"), attr=("eq",))
    third = inner.let("third", "floordiv", index, inner.constant(3, "index"))
    chosen = inner.let("chosen", "select", odd, inner.let("both", "add", index, third), third)
    total = inner.let("next", "add", held, inner.let("wide", "cast", chosen, dtype="i64"))
    top.statements.append(For("k", index, zero, stop, 1, (Carried(start, held, total, done),), tuple(inner.statements)))
    top.store(out, done, n=zero)
    kernel = Kernel("k", (out,), ("out",), (), (), (), tuple(top.statements), 1)
    made = Program("f", (), (out,), ("n",), (("n", extent(1)),), (kernel,), (Launch("k", ("out",)),))
    module_of(made).verify()
    (result,) = execute(made, [])
    assert result.tolist() == [sum(k // 3 + (k if k % 2 else 0) for k in range(10))]
