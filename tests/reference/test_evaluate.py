"""The reference evaluator against numpy written out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cleave.extents import extent
from cleave.graph import Attr, Axis, Builder, Graph, Input, Output, Symbol
from cleave.reference import evaluate

RNG = np.random.default_rng(7)
N = 10


def axis(name: str, size: int | str, chunk_of: tuple[str, str] | None = None) -> Axis:
    return Axis(name, extent(size), chunk_of)


def builder(axes: Sequence[Axis], *inputs: str, dtype: str = "f32", symbols: Sequence[Symbol] = ()) -> Builder:
    """A builder whose inputs are written as their axes, `"m n"`."""
    entries = [Input(f"x{i}", tuple(text.split()), dtype, text) for i, text in enumerate(inputs)]
    return Builder("f", symbols, axes, entries)


def finish(b: Builder, *values: int) -> Graph:
    return b.finish([Output(value, " ".join(b.ops[value].axes), b.ops[value].dtype) for value in values])


def unary(kind: str, data: Any) -> Any:
    b = builder([axis("n", len(data))], "n")
    return evaluate(finish(b, b.add(kind, 0)), [np.array(data, dtype=float)], {})[0]


SPLIT = [axis("m", 3), axis("n", "n"), axis("s", "s"), axis("ni", "ceildiv(n, s)", ("n", "s"))]
SYMBOLS = [Symbol("n"), Symbol("s", positive=True)]


def test_operands_broadcast_by_name_in_the_declared_order() -> None:
    b = builder([axis("m", 2), axis("n", 3), axis("k", 4)], "k m", "n")
    graph = finish(b, b.add("sub", 0, 1))
    x, y = RNG.normal(size=(4, 2)), RNG.normal(size=3)
    np.testing.assert_array_equal(evaluate(graph, [x, y], {})[0], x.T[:, None, :] - y[None, :, None])


def test_contract_takes_any_number_of_operands_and_axes() -> None:
    b = builder([axis(n, i + 2) for i, n in enumerate("abcdk")], "a b k", "k b c", "k d", "a k")
    two = b.add("contract", 0, 1, attr=(("k",),))
    alone = b.add("contract", 0, 1, attr=(("a", "k"),))
    four = b.add("contract", 0, 1, 2, 3, attr=(("k", "b"),))
    one = b.add("contract", 2, attr=(("k",),))
    graph = finish(b, two, alone, four, one)
    data = [RNG.normal(size=[{"a": 2, "b": 3, "c": 4, "d": 5, "k": 6}[n] for n in entry.axes]) for entry in graph.inputs]
    for found, text in zip(evaluate(graph, data, {}), ("abk,kbc->abc", "abk,kbc->bc", "abk,kbc,kd,ak->acd", "kd->d"), strict=True):
        operands = data if text.count(",") == 3 else [data[2]] if "," not in text else data[:2]
        np.testing.assert_allclose(found, np.einsum(text, *operands), rtol=1e-12)


def test_a_graph_may_have_more_axes_than_the_alphabet_has_letters() -> None:
    axes = [axis(f"a{i}", 2) for i in range(60)]
    b = builder(axes, *(f"a{i} a{i + 1}" for i in range(59)))
    value = 0
    for i in range(1, 59):
        value = b.add("contract", value, i, attr=((f"a{i}",),))
    data = [RNG.normal(size=(2, 2)) for _ in range(59)]
    np.testing.assert_allclose(evaluate(finish(b, value), data, {})[0], np.linalg.multi_dot(data), rtol=1e-10)


@pytest.mark.parametrize("n", [0, 1, 5, 12, 13])
@pytest.mark.parametrize("s", [1, 4, 5])
def test_a_split_reduction_is_the_whole_reduction(n: int, s: int) -> None:
    """Also where the last chunk is short or empty, in either order of the two reductions."""
    b = builder(SPLIT, "m n", symbols=SYMBOLS)
    parts = b.add("split", 0, attr=("n", "s", "ni"))
    values: list[int] = []
    for kind in ("sum", "max", "min"):
        values.append(b.add("reduce", 0, attr=(kind, ("n",))))
        for first, second in (("ni", "s"), ("s", "ni")):
            values.append(b.add("reduce", b.add("reduce", parts, attr=(kind, (first,))), attr=(kind, (second,))))
        values.append(b.add("reduce", parts, attr=(kind, ("s", "ni"))))
    x = RNG.normal(size=(3, n)) - 3
    found = evaluate(finish(b, *values), [x], {"n": n, "s": s})
    for k in range(0, 12, 4):
        for other in found[k + 1 : k + 4]:
            np.testing.assert_allclose(other, found[k], rtol=1e-12)


def test_an_absent_chunk_gives_the_identity() -> None:
    b = builder(SPLIT, "m n", symbols=SYMBOLS)
    parts = b.add("split", 0, attr=("n", "s", "ni"))
    graph = finish(b, b.add("reduce", parts, attr=("sum", ("ni",))), b.add("reduce", parts, attr=("max", ("ni",))))
    total, top = evaluate(graph, [np.ones((3, 5))], {"n": 5, "s": 4})
    np.testing.assert_array_equal(total, [[2, 2, 1, 0]] * 3)
    np.testing.assert_array_equal(top, [[1, 1, 1, -np.inf]] * 3)


@pytest.mark.parametrize("value", [1.0, np.inf, np.nan])
def test_a_split_contraction_skips_what_does_not_exist(value: float) -> None:
    """The poison of absent lanes, and an infinity that meets only absent lanes, stay out; what exists counts in full."""
    b = builder(SPLIT, "m n", "n", "m ni", "s", symbols=SYMBOLS)
    left, right = (b.add("split", i, attr=("n", "s", "ni")) for i in (0, 1))
    both = b.add("contract", left, right, attr=(("ni",),))
    one = b.add("contract", left, 2, attr=(("ni",),))
    none = b.add("contract", 2, 3, attr=(("ni", "s"),))
    x, y, z, w = RNG.normal(size=(3, 7)), RNG.normal(size=7), RNG.normal(size=(3, 3)), np.array([1.0, 2.0, 3.0])
    z[1, 2] = value
    found = evaluate(finish(b, both, one, none), [x, y, z, w], {"n": 7, "s": 3})
    chunks = [slice(0, 3), slice(3, 6), slice(6, 7)]
    np.testing.assert_allclose(found[0], np.stack([(x * y)[:, c].sum(-1) for c in chunks], -1))
    np.testing.assert_allclose(found[1], np.stack([(x[:, c] * z[:, : c.stop - c.start]).sum(-1) for c in chunks], -1))
    np.testing.assert_allclose(found[2], z[:, :3].sum(-1) * 3 + z[:, 0] * 3)


def test_absent_elements_poison_what_uses_them() -> None:
    b = builder([*SPLIT[:3], axis("ni", "ceildiv(n, s)")], "m n", symbols=SYMBOLS)
    parts = b.add("split", 0, attr=("n", "s", "ni"))
    undeclared = evaluate(finish(b, b.add("reduce", parts, attr=("sum", ("ni", "s")))), [np.ones((3, 5))], {"n": 5, "s": 2})
    assert np.isnan(undeclared[0]).all()


def test_merge_undoes_a_ragged_split_and_a_chunk_may_be_split_again() -> None:
    axes = [*SPLIT, axis("t", 2), axis("nii", "ceildiv(ceildiv(n, s), 2)", ("ni", "t"))]
    b = builder(axes, "m n", symbols=SYMBOLS)
    parts = b.add("split", 0, attr=("n", "s", "ni"))
    again = b.add("split", parts, attr=("ni", "t", "nii"))
    graph = finish(b, b.add("merge", parts, attr=(("s", "ni"), "n")), b.add("reduce", again, attr=("sum", ("s", "t", "nii"))))
    x = RNG.normal(size=(3, 8))
    whole, total = evaluate(graph, [x], {"n": 8, "s": 3})
    np.testing.assert_array_equal(whole, x)
    np.testing.assert_allclose(total, x.sum(-1))


def test_reductions_over_nothing_give_their_identity() -> None:
    b = builder([axis("m", 2), axis("n", 0)], "m n")
    kinds = [b.add("reduce", 0, attr=(kind, ("n",))) for kind in ("sum", "max", "min")]
    graph = finish(b, *kinds, b.add("contract", 0, 0, attr=(("n",),)), b.add("shift", 0, attr=(("n",),)))
    found = evaluate(graph, [np.zeros((2, 0))], {})
    for value, wanted in zip(found, (0, -np.inf, np.inf, 0, 0), strict=True):
        np.testing.assert_array_equal(value, np.full(2, wanted))


def test_a_masked_row_is_zero_and_its_logsumexp_minus_infinity() -> None:
    b = builder([axis("m", 3), axis("n", N)], "m n")
    top = b.add("shift", 0, attr=(("n",),))
    p = b.add("exp", b.add("sub", 0, top))
    z = b.add("reduce", p, attr=("sum", ("n",)))
    graph = finish(b, b.add("div", p, z, attr=("guarded",)), b.add("div", p, z), b.add("add", b.add("log", z), top))
    x = RNG.normal(size=(3, N)) * 1e4
    x[1] = -np.inf
    x[2, 1:] = -np.inf
    guarded, plain, lse = evaluate(graph, [x], {})
    assert np.isfinite(guarded).all() and np.isnan(plain[1]).all()
    np.testing.assert_array_equal(guarded[1], np.zeros(N))
    np.testing.assert_array_equal(guarded[2], np.eye(N)[0])
    np.testing.assert_allclose(lse, [np.logaddexp.reduce(x[0]), -np.inf, x[2, 0]])


def test_a_shift_may_take_any_value() -> None:
    b = builder([axis("m", 3), axis("n", N)], "m n")
    p = b.add("exp", b.add("sub", 0, b.add("shift", 0, attr=(("n",),))))
    graph = finish(b, b.add("div", p, b.add("reduce", p, attr=("sum", ("n",)))))
    x = RNG.normal(size=(3, N))
    seen: list[tuple[str, ...]] = []
    (found,) = evaluate(graph, [x], {}, shift=lambda call, top: (seen.append(call.axes), top + np.array([1.0, -2.0, 3.0]))[1])
    assert seen == [("m",)]
    np.testing.assert_allclose(found, evaluate(graph, [x], {})[0], rtol=1e-13)


def test_elementwise_functions() -> None:
    x = [-30.0, -2.0, -0.5, 0.0, 0.7, 30.0, np.inf]
    np.testing.assert_allclose(unary("sigmoid", x), 1 / (1 + np.exp(-np.array(x))), rtol=1e-14)
    np.testing.assert_allclose(unary("gelu", [1.0, -10.0]), [0.8413447460685429, -7.619853024160527e-23], rtol=1e-12)
    np.testing.assert_allclose(unary("gelu_tanh", [1.0]), [0.8411919906082768], rtol=1e-12)
    np.testing.assert_allclose(unary("erf", [0.5]), [0.5204998778130465], rtol=1e-14)
    np.testing.assert_allclose(unary("silu", [2.0]), [1.7615941559557646], rtol=1e-14)
    np.testing.assert_array_equal(unary("relu", [-1.0, 2.0]), [0, 2])
    np.testing.assert_allclose(unary("rsqrt", [4.0, 0.0]), [0.5, np.inf])


def test_floor_division_and_remainder_round_down() -> None:
    b = Builder("f", [], [axis("n", 4)], [Input("a", ("n",), "i32", "n"), Input("b", ("n",), "i32", "n")])
    graph = finish(b, b.add("floordiv", 0, 1), b.add("mod", 0, 1))
    found = evaluate(graph, [np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])], {})
    np.testing.assert_array_equal(found[0], [3, -4, -4, 3])
    np.testing.assert_array_equal(found[1], [1, 1, -1, -1])
    assert found[0].dtype == np.int32


def test_axes_change_shape() -> None:
    axes = [axis("m", 2), axis("n", 6), axis("a", 2), axis("c", 3), axis("p", 9), axis("k", 6)]
    b = builder(axes, "m n", symbols=[Symbol("low")])
    split = b.add("split", 0, attr=("n", "a", "c"))
    cut = b.add("slice", 0, attr=("n", "c", extent(1), 2))
    graph = finish(
        b,
        split,
        b.add("merge", split, attr=(("a", "c"), "n")),
        cut,
        b.add("index", 0, attr=("n", extent(5))),
        b.add("pad", 0, attr=("n", "p", extent("low"), -1.5)),
        b.add("concat", 0, cut, attr=(("n", "c"), "p")),
        b.add("rename", 0, attr=((("n", "k"), ("m", "a")),)),
    )
    x = RNG.normal(size=(2, 6))
    found = evaluate(graph, [x], {"low": 2})
    padded = np.pad(x, [(0, 0), (2, 1)], constant_values=-1.5)
    wanted = [x.reshape(2, 2, 3), x, x[:, 1::2], x[:, 5], padded, np.concatenate([x, x[:, 1::2]], axis=1), x]
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_gather_reads_by_an_integer_tensor_and_poisons_out_of_range() -> None:
    axes = [axis("v", 4), axis("d", 2), axis("t", 3)]
    b = Builder("f", [], axes, [Input("table", ("v", "d"), "f32", "v d"), Input("at", ("t",), "i64", "t")])
    x = RNG.normal(size=(4, 2))
    (found,) = evaluate(finish(b, b.add("gather", 0, 1, attr=("v",))), [x, np.array([3, 0, 9])], {})
    np.testing.assert_array_equal(found, [[x[3, 0], x[0, 0], np.nan], [x[3, 1], x[0, 1], np.nan]])


def test_iotas_sizes_and_comparisons() -> None:
    b = builder([axis("m", 2), axis("n", "n")], "m n", symbols=[Symbol("n")])
    i, j = b.add("iota", attr=("m",)), b.add("iota", attr=("n",))
    causal = b.add("compare", j, i, attr=("le",))
    masked = b.add("select", causal, 0, b.add("constant", attr=(float("-inf"),)))
    mean = b.add("div", b.add("reduce", 0, attr=("sum", ("n",))), b.add("cast", b.add("size", attr=("n",)), dtype="f32"))
    x = RNG.normal(size=(2, 3))
    found = evaluate(finish(b, causal, masked, mean), [x], {"n": 3})
    np.testing.assert_array_equal(found[0], np.tri(2, 3, dtype=bool))
    np.testing.assert_array_equal(found[1], np.where(np.tri(2, 3, dtype=bool), x, -np.inf))
    np.testing.assert_allclose(found[2], x.mean(-1))


@pytest.mark.parametrize(("dtype", "value", "expected"), [
    ("bf16", 1 + 2**-8, 1.0), ("bf16", 1 + 3 * 2**-8, 1 + 2**-6), ("bf16", 1 + 2**-8 + 2**-40, 1 + 2**-7),
    ("bf16", 3.3961776e38, np.inf), ("bf16", 2.0**-134, 0.0), ("bf16", 1.5 * 2.0**-133, 2.0**-132), ("bf16", -np.inf, -np.inf),
    ("f16", 1 + 2**-11 + 2**-40, 1 + 2**-10), ("f16", 65520.0, np.inf), ("f32", 1 + 2**-24, 1.0),
])  # fmt: skip
def test_casts_round_to_even_on_request_and_are_the_identity_else(dtype: str, value: float, expected: float) -> None:
    b = builder([axis("n", 1)], "n", dtype="f64")
    graph = finish(b, b.add("cast", 0, dtype=dtype))
    assert evaluate(graph, [np.array([value])], {}, respect_dtypes=True)[0][0] == expected
    assert evaluate(graph, [np.array([value])], {})[0][0] == value


def test_results_are_rounded_as_declared() -> None:
    b = builder([axis("n", 1)], "n")
    graph = b.finish([Output(b.add("add", 0, 0), "n", "f16")])
    assert evaluate(graph, [np.array([0.1])], {}, respect_dtypes=True)[0][0] == np.float16(2 * np.float32(0.1))
    assert evaluate(graph, [np.array([0.1])], {})[0][0] == 0.2


def test_bf16_rounding_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch")
    x = (RNG.normal(size=4000) * 10.0 ** RNG.uniform(-44, 38, 4000)).astype(np.float32)
    b = builder([axis("n", 4000)], "n")
    (found,) = evaluate(finish(b, b.add("cast", 0, dtype="bf16")), [x], {}, respect_dtypes=True)
    np.testing.assert_array_equal(found, torch.from_numpy(x).to(torch.bfloat16).double().numpy())


def test_casts_to_integers_truncate() -> None:
    b = builder([axis("n", 4)], "n")
    graph = finish(b, b.add("cast", 0, dtype="i32"), b.add("cast", 0, dtype="i1"))
    integers, truth = evaluate(graph, [np.array([1.7, -1.7, 0.0, 0.2])], {})
    np.testing.assert_array_equal(integers, [1, -1, 0, 0])
    np.testing.assert_array_equal(truth, [True, True, False, True])


def test_float32_arithmetic_on_request() -> None:
    b = builder([axis("n", 2), axis("k", 2)], "n k", "k n")
    graph = finish(b, b.add("contract", 0, 1, attr=(("k",),)), b.add("gelu", 0), b.add("erf", 0))
    for value in evaluate(graph, [RNG.normal(size=(2, 2))] * 2, {}, np.float32):
        assert value.dtype == np.float32


@pytest.mark.parametrize(("message", "kind", "attr"), [
    ("do not hold", "split", ("n", "a", "c")),
    ("elements 4 to 8", "slice", ("n", "c", 4, 2)),
    ("element 6 of axis 'n'", "index", ("n", 6)),
    ("do not fit", "pad", ("n", "c", 0, 0.0)),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(message: str, kind: str, attr: tuple[Attr, ...]) -> None:
    b = builder([axis("n", 6), axis("a", 1), axis("c", 3)], "n")
    with pytest.raises(ValueError, match=message):
        evaluate(finish(b, b.add(kind, 0, attr=attr)), [np.zeros(6)], {})


def test_an_input_of_another_shape_is_refused() -> None:
    b = builder([axis("n", 6)], "n")
    with pytest.raises(ValueError, match=r"input 'x0' has shape \[5\]; \[n\] is \[6\]"):
        evaluate(finish(b, 0), [np.zeros(5)], {})
