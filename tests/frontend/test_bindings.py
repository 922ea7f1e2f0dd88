"""How a call's tensors meet the graph: strides, sizes, parameters, structures and names."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.export import Dim

from cleave.errors import CleaveError
from cleave.frontend import capture
from tests.frontend.agreement import agrees, evaluated, kinds, layouts, pattern
from tests.frontend.programs import PROGRAMS

Tensor = torch.Tensor


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_callers_may_pass_views_that_are_not_contiguous() -> None:
    program = PROGRAMS["attention"]
    q, k, v = program.arguments()
    views = q.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0), k.mT.contiguous().mT, v[..., ::2].repeat_interleave(2, -1)
    spread = torch.zeros(2, 4, 20, 8)[:, :, ::2]
    spread.copy_(k)
    agrees(program.function, (q, k, v), calls=[views, (q, spread, v)])


def test_a_slice_of_an_argument_is_an_offset_into_its_memory() -> None:
    captured = agrees(lambda x, w: (x @ w[:, :5], x @ w[:, 5:8]), (random(3, 4), random(4, 8)), calls=[(random(3, 4), random(8, 4).T)])
    first, second = [entry for entry in captured.bindings.inputs if entry.name.startswith("w")]
    assert [(dim.dim, str(dim.first), str(dim.size)) for dim in second.dims] == [(0, "0", "4"), (1, "5", "3")]
    assert [str(dim.first) for dim in first.dims] == ["0", "0"]
    assert all(op.kind != "slice" for op in captured.graph.ops)


def test_an_uneven_split_of_a_packed_projection_is_three_views_of_the_weight() -> None:
    def program(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        packed = torch.nn.functional.linear(x, w, bias).view(*x.shape[:-1], 10, 4)
        q, k, v = packed.split((6, 2, 2), dim=-2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    captured = agrees(program, (random(2, 5, 7), random(40, 7), random(40)), ({1: "s"}, None, None))
    assert [pattern(entry.layout) for entry in captured.graph.inputs] == [
        "a b c",
        *["(a b c) d", "(a b) c", "(a b) c"],
        "(a b c)",
        "(a b)",
        "(a b)",
    ]
    assert not {"slice", "merge", "split"} & set(kinds(captured))
    assert [[str(dim.first) for dim in entry.dims] for entry in captured.bindings.inputs[1:4]] == [["0", "0"], ["24", "0"], ["32", "0"]]


def test_a_slice_inside_packed_heads_is_a_view_of_the_weight() -> None:
    def program(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        plain, turned = (x @ w).view(-1, 3, 8).split((6, 2), dim=-1)
        return plain * 2, turned + 1, (x @ w).view(-1, 3, 8)[..., 1:8:3] + 1

    captured = agrees(program, (random(2, 7), random(7, 24)), calls=[(random(2, 7), random(24, 7).T)])
    assert not {"slice", "merge", "split"} & set(kinds(captured))
    assert [[(dim.dim, str(dim.first), str(dim.step)) for dim in entry.dims] for entry in captured.bindings.inputs[1:3]] == [
        [(0, "0", "1"), (1, "0", "8"), (1, "0", "1")],
        [(0, "0", "1"), (1, "0", "8"), (1, "6", "1")],
    ]


def test_lengths_that_an_operator_pairs_are_checked() -> None:
    dynamic = torch.export.Dim.DYNAMIC
    program = PROGRAMS["shared_heads"]
    captured = agrees(program.function, program.arguments(), ({2: dynamic}, {2: dynamic}, {2: dynamic}))
    q, k, v = program.arguments()
    with pytest.raises(CleaveError, match="dimension 2 of argument 'v' has size 3, compiled for n"):
        evaluated(captured, (q, k, v[:, :, :3]))


def test_a_table_that_is_long_enough_is_checked_to_be() -> None:
    table = torch.ones(8, 8, dtype=torch.bool).tril()

    def program(x: Tensor, mask: Tensor) -> Tensor:
        return x.masked_fill(mask[: x.shape[0], : x.shape[1]] == 0, -1.0)

    captured = agrees(program, (random(5, 5), table), ({0: "n", 1: "n"}, None), calls=[(random(8, 8), table), (random(1, 1), table)])
    with pytest.raises(CleaveError, match=r"traced for min\(8, n\) == n, which does not hold"):
        evaluated(captured, (random(9, 9), table))


def test_parameters_are_weights_and_are_read_at_each_call() -> None:
    linear = torch.nn.Linear(4, 3)
    layer = torch.nn.Sequential(linear, torch.nn.ReLU())
    captured = capture(layer, (random(2, 4),))
    assert {entry.name: entry.weight for entry in captured.graph.inputs} == {"_0_weight": True, "_0_bias": True, "input": False}
    bindings = captured.bindings
    with torch.no_grad():
        linear.bias.fill_(7.0)
    sources = {entry.name: bindings.tensor(entry.source, [random(2, 4)]) for entry in bindings.inputs}
    assert torch.equal(sources["_0_bias"], torch.full((3,), 7.0))


class Rotary(torch.nn.Module):
    """Holds a table that is not saved with the parameters, and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", random(4, 3), persistent=False)
        self.register_buffer("scale", torch.tensor(2.5))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.table * self.scale  # pyright: ignore[reportOperatorIssue]


def test_buffers_are_weights() -> None:
    captured = agrees(Rotary(), (random(2, 4),))
    assert {entry.name: entry.weight for entry in captured.graph.inputs} == {"scale": True, "table": True, "x": False}


def test_arguments_may_be_weights() -> None:
    for weights in (("w",), (1,)):
        captured = capture(lambda x, w: x @ w, (random(2, 4), random(4, 3)), weights=weights)
        assert [entry.weight for entry in captured.graph.inputs] == [False, True]


def test_bound_methods_and_closures_over_tensors() -> None:
    layer = torch.nn.Linear(4, 3)
    captured = capture(layer.forward, (random(2, 4),))
    assert sorted(layouts(captured)) == ["bias", "input", "weight"]
    table = random(4, 3)
    captured = capture(lambda x: x @ table, (random(2, 4),))
    (constant,) = [entry for entry in captured.bindings.inputs if entry.source.kind == "constant"]
    assert torch.equal(captured.bindings.tensor(constant.source, [None]), table)


def test_an_argument_returned_as_it_is_keeps_its_identity() -> None:
    captured = capture(lambda x, y: (x, x + y, y), (random(3), random(3)))
    kinds = [(entry.kind, entry.graph) for entry in captured.bindings.outputs]
    assert kinds == [("argument", 0), ("graph", 0), ("argument", 1)]


def test_one_tensor_given_twice_is_two_arguments() -> None:
    x, y = random(2, 3), random(2, 3) * 2
    captured = agrees(lambda a, b: a - 2 * b, (x, x), calls=[(x, y)])
    assert [entry.name for entry in captured.graph.inputs] == ["a", "b"]


def test_results_keep_their_structure() -> None:
    captured = capture(lambda x: {"a": [x + 1, 3], "b": (None, x * 2)}, (random(3),))
    made = [random(3), random(3) + 1]
    result = captured.bindings.results([random(3)], made)
    assert result["a"][0] is made[0] and result["a"][1] == 3 and result["b"][0] is None and result["b"][1] is made[1]


def test_keyword_arguments_are_put_in_order() -> None:
    captured = capture(lambda x, y: x - y, (random(3), random(3)))
    x, y = random(3), random(3) + 1
    assert captured.bindings.flatten((x,), {"y": y})[1] is y


def test_sizes_that_are_multiples_of_a_symbol() -> None:
    heads = Dim("heads")

    def program(x: Tensor) -> Tensor:
        return x.view(x.shape[0], -1, 4).softmax(-1)

    captured = agrees(program, (random(3, 20),), ({1: 4 * heads},), calls=[(random(3, 8),)])
    (read,) = captured.bindings.symbols
    assert (read.name, read.factor, read.rest) == ("heads", 4, 0)
    assert [str(size) for size in captured.bindings.outputs[0].shape] == ["3", "heads", "4"]


@pytest.mark.parametrize("size", [1, 2])
def test_example_sizes_of_one_do_not_fix_a_dynamic_dimension(size: int) -> None:
    program = PROGRAMS["attention_causal"]
    small = tuple(random(2, 4, size, 8) for _ in range(3))
    captured = agrees(program.function, small, program.dynamic_shapes(), calls=[program.arguments()])
    assert [symbol.name for symbol in captured.graph.symbols] == ["m", "n"]


def test_names_are_identifiers_whatever_the_user_calls_things() -> None:
    captured = capture(lambda data: data["a b"] + data["if(x)"], ({"a b": random(3), "if(x)": random(3)},))
    assert [entry.name for entry in captured.graph.inputs] == ["data_a_b", "data_if_x"]


def test_the_graph_does_not_depend_on_hashing() -> None:
    source = (
        "from cleave.frontend import capture\n"
        "from tests.frontend.programs import PROGRAMS\n"
        "for name in ('expanded_heads', 'rms_norm_swiglu', 'latent_attention'):\n"
        "    program = PROGRAMS[name]\n"
        "    print(capture(program.function, program.arguments(), program.dynamic_shapes()).graph)\n"
    )
    outputs = [
        subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}).stdout
        for seed in ("0", "1")
    ]
    assert outputs[0] == outputs[1] != ""
