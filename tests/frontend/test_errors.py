"""What is not supported is named in one line, with the user's file and line; it is never a wrong result or a traceback."""

from __future__ import annotations

import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NoReturn

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp

import cleave
from cleave.bridge.alg import graph_op
from cleave.choosing import searched
from cleave.errors import CleaveError
from cleave.extents import extent
from cleave.frontend import capture
from cleave.frontend.operators import table
from cleave.graph import Axis, Builder, Input, Output
from tests.frontend.agreement import agrees, evaluated

Tensor = torch.Tensor
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def conditional(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x
    return -x


def mutated_state() -> torch.nn.Module:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)  # type: ignore[operator]
            return x + self.count  # type: ignore[operator]

    return Counting()


REFUSED: Mapping[str, tuple[Callable[..., Any], str]] = {
    "returned_chunk": (lambda x: x.chunk(2, 1)[1], "chunk: returns a view of 'x'"),
    "positions": (lambda x: torch.where(x > 0)[0], "where: a size depends on the values of a tensor"),
    "label_smoothing": (lambda x: F.cross_entropy(x, x[:, 0].long(), label_smoothing=0.1), "argument label_smoothing=0.1 is not supported"),
    "over_no_dimension": (lambda x: x.logsumexp(()), "logsumexp: no dimension is given"),
    "cumsum": (lambda x: x.cumsum(0), "cumsum: this operator is not supported"),
    "sort": (lambda x: x.sort(-1).values, "sort: this operator is not supported"),
    "flip": (lambda x: x.flip(0), "flip: this operator is not supported"),
    "roll": (lambda x: x.roll(1, 0), "roll: this operator is not supported"),
    "random": (lambda x: x + torch.rand_like(x), "rand_like: this operator is not supported"),
    "indices_of_max": (lambda x: x.max(-1).indices, "max: its result 'indices' is not supported; use the first"),
    "unpacked_indices": (lambda x: unpacked(x), "min: its result 'indices' is not supported; use the first result only"),
    "unnamed_result": (
        lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5),
        "native_layer_norm: its result 1, counted from 0, is not",
    ),
    "class_weights": (lambda x: F.cross_entropy(x, x[:, 0].long(), x[0]), "cross_entropy_loss: argument weight is not supported; leave it"),
    "element_weights": (
        lambda x: F.binary_cross_entropy_with_logits(x, x, weight=x),
        "_logits: argument weight is not supported; leave it",
    ),
    "own_class": (
        lambda x: Own(torch.nn.ReLU()),
        "a result of type Own is not supported; return tensors, numbers, strings and None, in lists",
    ),
    "device": (lambda x: (x * 2, x.device), "a result of type device is not supported; return tensors"),
    "int8_constant": (lambda x: x * torch.ones(4, dtype=torch.int8), "dtype int8 is not supported"),
    "int8_list": (lambda x: x * torch.tensor([1, 2, 3, 4], dtype=torch.int8), "constant: dtype int8 is not supported"),
    "argmax": (lambda x: x.argmax(-1), "argmax: this operator is not supported"),
    "active_dropout": (lambda x: F.dropout(x, 0.5), "dropout: an active dropout draws random numbers"),
    "diagonal": (lambda x: torch.einsum("ii->i", x[:, :3]), "einsum: 'ii' takes a diagonal"),
    "two_indices": (lambda x: x[torch.tensor([0, 1]), torch.tensor([1, 2])], "index: an index by 2 tensors"),
    "boolean_index": (lambda x: x[torch.tensor([True, False, True])], "error: "),
    "complex": (lambda x: torch.view_as_complex(x.view(3, 2, 2)), "error: "),
    "int8": (lambda x: x.to(torch.int8), "dtype int8 is not supported"),
    "bits": (lambda x: x.long() & 3, "bits of integers are not supported"),
    "integer_product": (lambda x: x.long() @ x.long().T, "matmul: sums of integer products are not supported"),
    "data_dependent_branch": (conditional, "error: torch.export: data-dependent: a branch or a size is decided by the values of a tensor"),
    "data_dependent_shape": (lambda x: x.nonzero(), "nonzero: "),
    "item": (lambda x: x * x.sum().item(), "item: takes a number from the values of a tensor"),
    "groups": (lambda x: grouped(x), "must divide the number of heads in query"),
    "own_exception": (lambda x: x.reshape(5, 5), "error: torch.export: "),
    "write_to_slice": (lambda x: x[0].mul_(2), "mul_: writes to 'x' in place"),
    "slice_assignment": (lambda x: assign_to_slice(x), "error: "),
    "returned_view": (lambda x: x.t(), "t: returns a view of 'x'"),
    "returned_slice": (lambda x: (x * 2, x[1:]), "slice: returns a view of 'x'"),
    "set_result": (lambda x: {1, 2}, "a result of type set is not supported; return tensors"),
    "numpy": (lambda x: x.numpy(), "error: "),
    "scatter": (lambda x: x.scatter(1, torch.zeros(3, 1, dtype=torch.long), 0.0), "scatter: this operator is not supported"),
    "trunc": (lambda x: torch.div(x, 2, rounding_mode="trunc"), "rounding_mode='trunc' is not supported"),
    "autocast": (lambda x: _autocast(x), "torch.autocast: what is inside is computed in bfloat16"),
    "vmap": (lambda x: torch.vmap(lambda row: row * 2)(x), "torch.func: vmap and other transforms of functions are not supported"),
    "autocast_in_one_that_is_off": (lambda x: _autocast(x, off_outside=True), "torch.autocast: what is inside is computed in bfloat16"),
    "autocast_around_one_that_is_off": (lambda x: _autocast(x, off_inside=True), "torch.autocast: what is inside is computed in bfloat16"),
    "vmap_with_gradients": (lambda x: with_gradients(torch.vmap(lambda row: row * 2), x), "torch.func: vmap and other transforms"),
    "gradient": (lambda x: torch.func.grad(lambda y: (y * y).sum())(x), "torch.func: gradients are taken in the function"),
    "long_factor": (lambda x: x.int() * 2**40, "constant: takes 1099511627776, which does not fit i32"),
    "infinite_integer": (lambda x: x.long() + torch.full((4,), INFINITY).long(), "takes inf as an integer"),
}
NAN, INFINITY = float("nan"), float("inf")
OF_NAN: Mapping[str, Callable[[Tensor], Tensor]] = {
    "masked_fill": lambda x: x.masked_fill(x > 0, NAN),
    "where": lambda x: torch.where(x > 0, x, NAN),
    "mul": lambda x: x * NAN,
    "eq": lambda x: x == NAN,
    "full_like": lambda x: x + torch.full_like(x, NAN),
    "clamp": lambda x: x.clamp(max=NAN),
    "nan_to_num": lambda x: x.nan_to_num(nan=NAN),
    "pow": lambda x: x**NAN,
    "constant": lambda x: x + torch.tensor(NAN),
}
OF_FLOATS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "log_sigmoid": F.logsigmoid,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "celu": F.celu,
    "glu": F.glu,
    "var": torch.var,
    "std": torch.std,
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)),
}


def grouped(x: Tensor) -> Tensor:
    q, k = x.new_ones(1, 5, 3, 4), x.new_ones(1, 2, 3, 4)
    return F.scaled_dot_product_attention(q, k, k, enable_gqa=True)


def unpacked(x: Tensor) -> tuple[Tensor, Tensor]:
    least, where = x.min(-1)
    return least, where


def _autocast(x: Tensor, *, off_outside: bool = False, off_inside: bool = False) -> Tensor:
    with torch.autocast("cpu", enabled=False) if off_outside else nullcontext(), torch.autocast("cpu", dtype=torch.bfloat16):
        x = x @ x.T
        with torch.autocast("cpu", enabled=False) if off_inside else nullcontext():
            return x @ x


def with_gradients(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.enable_grad():
        return function(x)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_with_its_line(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(CleaveError) as caught:
        capture(function, (X,))
    text = str(caught.value)
    assert message in text
    assert "\n" not in text and "(in the Wrapper)" not in text and "Value(" not in text
    assert re.match(rf"{re.escape(__file__)}:\d+: error: ", text)


def refused_at_a_line(function: Callable[[Tensor], Any], x: Tensor) -> str:
    """What compiling a function in this file is refused with."""
    with pytest.raises(CleaveError) as caught:
        cleave.compile(lambda x: function(x), x)
    assert re.match(rf"{re.escape(__file__)}:\d+: error: ", str(caught.value))
    return str(caught.value)


@pytest.mark.parametrize("name", OF_NAN)
def test_nan_among_the_numbers_of_a_program(name: str) -> None:
    assert "takes NaN as a number, and a program may only compute one; " in refused_at_a_line(OF_NAN[name], X)


@pytest.mark.parametrize("name", OF_FLOATS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_functions_of_floats_on_integers(name: str, dtype: torch.dtype) -> None:
    x = torch.arange(12).reshape(3, 4).to(dtype)
    with pytest.raises(RuntimeError):
        OF_FLOATS[name](x)
    assert f"{name}: computes on integers, and needs floats; " in refused_at_a_line(OF_FLOATS[name], x)


@pytest.mark.parametrize(
    "error",
    [
        TypeError("of a call"),
        ValueError("two\nlines"),
        KeyError("x"),
        IndexError(),
        AttributeError("a"),
        AssertionError("b"),
        ZeroDivisionError(),
    ],
)
def test_a_bug_of_a_lowering_is_not_the_users_mistake(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Whatever it raises is told in one line, at the user's line, with the place in the code."""

    def lowered(cx: object, result: object, self: object) -> NoReturn:
        raise error

    monkeypatch.setitem(table._TABLE, "exp", lowered)
    text = refused_at_a_line(torch.exp, X)
    assert "\n" not in text and f"error: exp: internal error, {type(error).__name__}: " in text
    assert "not supported" not in text and re.search(r"\(test_errors\.py:\d+\); please report it$", text)


def test_what_is_lowered_to_another_shape_or_type_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (lambda value: replace(value, dims=value.dims[1:]), lambda value: replace(value, dtype=torch.float64)):
        monkeypatch.setitem(table._TABLE, "exp", lambda cx, result, self, wrong=wrong: wrong(self))
        text = refused_at_a_line(torch.exp, X)
        assert re.search(r"error: exp: internal error, AssertionError: lowered to .*, traced as .*; please report it$", text)


def test_arguments_that_a_lowering_does_not_take_are_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table._TABLE, "exp", lambda cx, result, self, base: self)
    text = refused_at_a_line(torch.exp, X)
    assert "error: exp: this use of the operator is not supported (missing a required argument: 'base')" in text


def test_what_a_pass_makes_wrong_is_located() -> None:
    """A graph that the frontend would not give, as an error in a pass might make one."""
    builder = Builder("wrong", (), [Axis("n", extent("4"))], [Input("x", ("n",), "f32", "n")])
    wrong = builder.add("mul", 0, builder.add("constant", attr=(NAN,), dtype="f32", place="here.py:3"), place="here.py:3")
    module = ModuleOp([graph_op(builder.finish([Output(wrong, "n", "f32")]))])
    settings = {"split": False, "alternatives": 1, "seed": 0, "weights": False}
    with pytest.raises(CleaveError, match=r"^here.py:3:\d+: error: alg.constant: the constant is NaN"):
        searched(module, "", settings, lambda stage: None)


MIXED: Mapping[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "mm": (torch.mm, (4, 4), (4, 4)),
    "mm over one": (torch.mm, (4, 1), (1, 4)),
    "matmul": (torch.matmul, (2, 3, 4), (4, 5)),
    "mv": (torch.mv, (4, 4), (4,)),
    "einsum": (lambda a, b: torch.einsum("ij,ij->i", a, b), (4, 4), (4, 4)),
    "linear": (F.linear, (4, 4), (4, 4)),
    "bias": (lambda a, b: F.linear(a, a, b), (4, 4), (4,)),
    "addmm": (lambda a, b: torch.addmm(b, a, a), (4, 4), (4,)),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_products_of_several_dtypes(name: str, dtype: torch.dtype) -> None:
    function, left, right = MIXED[name]
    args = torch.ones(left), torch.ones(right, dtype=dtype)
    with pytest.raises(RuntimeError):
        function(*args)
    with pytest.raises(CleaveError) as caught:
        capture(lambda a, b: function(a, b), args)
    assert re.match(rf"{re.escape(__file__)}:\d+: error: .*(float\d+ and float|found torch.float)", str(caught.value))


def test_products_of_several_dtypes_that_sum_nothing() -> None:
    args = torch.ones(3), torch.ones(4, dtype=torch.float64)
    agrees(torch.outer, args)
    agrees(lambda a, b: torch.einsum("i,j->ij", a, b), args)


class Own(torch.nn.Module):
    """A module of the user's around two of PyTorch's."""

    def __init__(self, first: torch.nn.Module) -> None:
        super().__init__()
        self.parts = torch.nn.Sequential(first, torch.nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.parts(x)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (torch.nn.AvgPool1d(2), "avg_pool1d: this operator is not supported (in the AvgPool1d);"),
        (torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(torch.nn.AvgPool1d(2))), "is not supported (in the AvgPool1d '1.0');"),
        (Own(torch.nn.AvgPool1d(2)), "is not supported (in the AvgPool1d 'parts.0');"),
        (torch.nn.Linear(7, 7), " (in the Linear);"),
        (Own(torch.nn.Linear(7, 7)), " (in the Linear 'parts.0');"),
        (torch.Tensor.sort, "sort: this operator is not supported; "),
        (3, "there is nothing to compile in 3, of type int; give a function or a module"),
        (torch.jit.script(torch.nn.Linear(4, 4)), "Linear is a script of torch.jit; give the module or function that it was made from"),
        (torch.jit.trace(torch.relu, X), "relu is a script of torch.jit; give the module or function that it was made from"),
    ],
)
def test_what_is_not_the_users_is_named_at_the_users_line(module: Any, message: str) -> None:
    with pytest.raises(CleaveError) as caught:
        cleave.compile(module, X)
    assert re.match(rf"{re.escape(__file__)}:\d+: error: ", str(caught.value))
    assert message in str(caught.value)


def assign_to_slice(x: Tensor) -> Tensor:
    out = x * 2
    out[1:2] = 0
    return out


def test_writing_to_a_buffer_is_refused() -> None:
    with pytest.raises(CleaveError, match="add_: writes to 'count' in place"):
        capture(mutated_state(), (X,))


def test_a_dynamic_dimension_that_the_program_fixes() -> None:
    with pytest.raises(CleaveError, match="dimension 1 of 'x' as dynamic but your code specialized it to be a constant"):
        capture(lambda x: x + torch.ones(4), (X,), ({1: "n"},))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (({2: "n"},), "dynamic_shapes of 'x' names dimension 2 of 2"),
        (({0: "import os"},), "dynamic dimension 'import os' of 'x' is not a name"),
        ({"y": {0: "n"}}, "dynamic_shapes names 'y'; the arguments are x"),
        (({0: "n"}, None), "dynamic_shapes has 2 entries for 1 arguments"),
        (3, "dynamic_shapes is of type int; give a tuple"),
        ("n", "dynamic_shapes is of type str; give a tuple"),
        ((3,), "dynamic_shapes of 'x' is of type int; give the sizes"),
        (("n",), "dynamic_shapes of 'x' is 'n'; give the sizes"),
    ],
)
def test_declarations_that_do_not_fit(shapes: Any, message: str) -> None:
    with pytest.raises(CleaveError, match=message):
        capture(lambda x: x + 1, (X,), shapes)


def test_torch_prints_nothing_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    """On data-dependent control flow torch.export prints the part of the graph that it has traced."""
    with pytest.raises(CleaveError, match="data-dependent"):
        capture(lambda x: x if x.sum() > 0 else -x, (X,))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_what_is_printed_meanwhile_is_kept(capfd: pytest.CaptureFixture[str], fails: bool, error: type[Exception]) -> None:
    """By the function and by other threads, at once, whether tracing ends or raises."""

    def loud(x: Any) -> Any:
        print("traced", file=sys.stderr)
        warnings.warn("careful", stacklevel=1)
        other = threading.Thread(target=lambda: print("beside", file=sys.stderr))
        other.start()
        other.join()
        told.append(capfd.readouterr().err)
        if fails:
            raise error("no")
        return x + 1

    told: list[str] = []
    with pytest.raises(CleaveError, match=f"{error.__name__}: no") if fails else nullcontext(), pytest.warns(UserWarning, match="careful"):
        capture(loud, (X,))
    assert told and told[0].startswith("traced\n") and told[0].endswith("beside\n")


def test_what_depends_on_data_after_printing(capfd: pytest.CaptureFixture[str]) -> None:
    def loud(x: Any) -> Any:
        print("traced", file=sys.stderr)
        return conditional(x)

    with pytest.raises(CleaveError, match=rf"{re.escape(__file__)}:\d+: error: torch.export: data-dependent: a branch"):
        capture(loud, (X,))
    assert capfd.readouterr().err == "traced\n"


@pytest.mark.parametrize("name", ["torch.export", "torch.export._trace", "torch._dynamo.anything", "torch.fx.experimental.symbolic_shapes"])
def test_what_torch_logs_is_withheld_in_the_thread_that_traces_alone(caplog: pytest.LogCaptureFixture, name: str) -> None:
    """Also of loggers below those that are named; what others log is heard."""

    def logging_meanwhile(x: Any) -> Any:
        logging.getLogger(name).error("own")
        logging.getLogger("of the user").error("the user's")
        other = threading.Thread(target=lambda: logging.getLogger(name).error("another thread's"))
        other.start()
        other.join()
        return x + 1

    capture(logging_meanwhile, (X,))
    logging.getLogger(name).error("later")
    assert [message for message in caplog.messages if message] == ["the user's", "another thread's", "later"]


def test_weights_that_are_no_arguments() -> None:
    with pytest.raises(CleaveError, match="weights names 'w', which is not an argument; the arguments are x"):
        capture(lambda x: x + 1, (X,), weights=("w",))


def test_calls_are_checked() -> None:
    captured = capture(lambda x, scale: x * scale, (X, 2.0), ({0: Dim("n", min=2, max=9)}, None))
    bindings = captured.bindings
    assert bindings.sizes(bindings.flatten((torch.randn(7, 4), 2.0))) == {"n": 7}
    for args, message in (
        ((torch.randn(7, 5), 2.0), "dimension 1 of argument 'x' has size 5, compiled for 4"),
        ((torch.randn(7, 4).double(), 2.0), "argument 'x' is torch.float64, compiled for torch.float32"),
        ((torch.randn(4), 2.0), "argument 'x' has 1 dimension, compiled for 2"),
        ((torch.randn(7, 4), 3.0), "argument 'scale' is 3.0, compiled for 2.0"),
        ((torch.randn(7, 4),), "argument 'scale' is missing; compiled for 2: x, scale"),
        ((torch.randn(7, 4), 2.0, 2.0), "3 arguments are given; compiled for 2: x, scale"),
        ((torch.randn(7, 4), {"a": [2.0]}), "argument 'scale' is {'a': \\[one value\\]}, compiled for one value"),
        ((1.5, 2.0), "argument 'x' is 1.5, compiled for a tensor"),
    ):
        with pytest.raises(CleaveError, match=message):
            bindings.sizes(bindings.flatten(args))


def test_a_branch_on_a_size_becomes_a_condition() -> None:
    captured = agrees(lambda x: x * 2 if x.shape[0] > 2 else x * 3, (X,), ({0: "n"},), calls=[(torch.randn(7, 4),)])
    with pytest.raises(CleaveError, match="traced for n > 2, which does not hold"):
        evaluated(captured, (torch.randn(2, 4),))


def test_a_branch_on_a_size_of_one_becomes_a_condition() -> None:
    captured = agrees(lambda x: x * 2 if x.shape[0] != 1 else x * 3, (X,), ({0: "n"},), calls=[(torch.randn(7, 4),)])
    with pytest.raises(CleaveError, match="traced for n != 1, which does not hold"):
        evaluated(captured, (torch.randn(1, 4),))


def test_declared_bounds_are_conditions() -> None:
    captured = agrees(lambda x: x * 2, (X,), ({0: Dim("n", min=2, max=9)},))
    assert [symbol.positive for symbol in captured.graph.symbols] == [True]
    for size, message in ((1, "n >= 2"), (10, "n <= 9")):
        with pytest.raises(CleaveError, match=f"traced for {message}, which does not hold"):
            evaluated(captured, (torch.randn(size, 4),))


def test_slices_end_where_a_dynamic_dimension_does() -> None:
    for function in (lambda x: x[:3] * 2, lambda x: x[-3:] * 2, lambda x: x[5:] * 2, lambda x: x.exp()[1:7] * 2):
        agrees(function, (torch.randn(8, 4),), ({0: "n"},), calls=[(torch.randn(2, 4),), (torch.randn(20, 4),)])


def test_sizes_declared_equal_are_checked_to_be_equal() -> None:
    captured = capture(lambda x, y: x.sum(0) + y.sum(0), (X, X), ({0: "n"}, {0: "n"}))
    with pytest.raises(CleaveError, match="dimension 0 of argument 'y' has size 2, compiled for n; n is 3 by dimension 0 of 'x'"):
        evaluated(captured, (X, X[:2]))


def causal(q: Tensor, k: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, k, is_causal=q.shape[2] > 1 and k.dim() == 4)


def causal_symbol(q: Tensor, k: Tensor) -> Tensor:
    is_causal: Any = q.shape[2] > 1
    return F.scaled_dot_product_attention(q, k, k, is_causal=is_causal)


SHORT: Mapping[str, tuple[Callable[..., Any], tuple[int, ...], str]] = {
    "attention": (causal, (1, 2, 1, 8), "needs m > 1, and the example has m = 1; give an example for which it holds"),
    "branch": (lambda x, k: x * 2 if x.shape[2] > 1 else x * 3, (1, 2, 1, 8), "needs m > 1, and the example has m = 1"),
    "branch_on_one": (lambda x, k: x * 2 if x.shape[2] == 1 else x * 3, (1, 2, 1, 8), "needs m != 1, and the example has m = 1"),
    "number": (causal_symbol, (1, 2, 7, 8), "torch.export: TypeError: scaled_dot_product_attention(): argument 'is_causal' must be bool"),
}


@pytest.mark.parametrize("name", SHORT)
def test_examples_that_take_another_branch(name: str) -> None:
    function, shape, message = SHORT[name]
    with pytest.raises(CleaveError) as caught:
        capture(function, (torch.ones(shape), torch.ones(1, 2, 7, 8)), ({2: "m"}, None))
    assert message in str(caught.value)
    assert re.match(
        rf"{re.escape(__file__)}:{function.__code__.co_firstlineno + (name in ('attention', 'number')) + (name == 'number')}: ",
        str(caught.value),
    )
    assert name != "number" or "make it one, as by bool(x.shape[0] > 1)" in str(caught.value)


@pytest.mark.parametrize(
    "size, message", [(1, "needs n >= 2, and the example has n = 1"), (12, "needs n <= 9, and the example has n = 12")]
)
def test_examples_outside_of_declared_bounds(size: int, message: str) -> None:
    with pytest.raises(CleaveError, match=f"{message}; give an example for which it holds"):
        capture(lambda x: x * 2, (torch.ones(size, 4),), ({0: Dim("n", min=2, max=9)},))


def test_a_call_that_takes_another_branch_names_it() -> None:
    captured = capture(causal, (torch.ones(1, 2, 7, 8), torch.ones(1, 2, 7, 8)), ({2: "m"}, None))
    with pytest.raises(CleaveError, match="traced for m > 1, which does not hold") as caught:
        evaluated(captured, (torch.ones(1, 2, 1, 8), torch.ones(1, 2, 7, 8)))
    assert str(caught.value).startswith(f"{__file__}:{causal.__code__.co_firstlineno + 1}: error: ")


@pytest.mark.parametrize("dtype", [torch.int8, torch.complex64, torch.uint8, torch.float8_e4m3fn])
@pytest.mark.parametrize("used", [True, False])
def test_types_of_arguments(dtype: torch.dtype, used: bool) -> None:
    def function(x: Tensor, other: Tensor) -> Tensor:
        return x + other.float() if used else x * 2

    with pytest.raises(CleaveError) as caught:
        capture(function, (X, torch.ones(4).to(dtype)))
    name = str(dtype).removeprefix("torch.")
    assert str(caught.value).startswith(
        f"{__file__}:{function.__code__.co_firstlineno}: error: argument 'other': dtype {name} is not supported"
    )


def test_types_of_buffers() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones(4, dtype=torch.int8))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale  # type: ignore[operator]

    with pytest.raises(CleaveError) as caught:
        capture(Scaled(), (X,))
    line = Scaled.forward.__code__.co_firstlineno
    assert str(caught.value).startswith(f"{__file__}:{line}: error: parameter or buffer 'scale': dtype int8 is not supported")


def test_a_type_is_a_result() -> None:
    captured = capture(lambda x: (x * 2, x.dtype), (X,))
    assert evaluated(captured, (X,))[1] is torch.float32


def test_modules_made_for_inference() -> None:
    with torch.inference_mode():
        module = torch.nn.Linear(4, 4)
    with pytest.raises(CleaveError, match=r"make the module outside of torch\.inference_mode, as under torch\.no_grad"):
        cleave.compile(module, X)
