"""Random graphs: what the scheduler makes of them gives the values of the reference."""

from __future__ import annotations

import random

import pytest

from cleave.algebra import stabilize
from cleave.errors import CleaveError
from cleave.extents import extent
from cleave.graph import Axis, Builder, Graph, Input, Output, Symbol
from cleave.schedule import ScheduleOptions

from .programs import agrees, scheduled

AXES = ("a", "b", "c", "d")
UNARY = ("neg", "tanh", "sigmoid", "silu", "relu", "abs", "sin", "gelu")
BINARY = ("add", "sub", "mul", "max", "min")


def random_graph(seed: int, dynamic: bool = False) -> tuple[Graph, dict[str, int]]:
    """A well-formed graph of elementwise operations, reductions, masks, normalised exponentials and operations on axes."""
    rng = random.Random(seed)
    sizes = {axis: rng.choice([1, 2, 3, 5, 7, 8, 16, 17, 20]) for axis in AXES}
    symbols = [Symbol(axis.upper(), (sizes[axis],)) for axis in AXES] if dynamic else []
    axes = [Axis(axis, extent(axis.upper() if dynamic else sizes[axis])) for axis in AXES]
    axes += [Axis(axis + "2", axes[place].extent) for place, axis in enumerate(AXES)]
    inputs: list[Input] = []
    for number in range(rng.randint(1, 3)):
        own = rng.sample(AXES, rng.randint(1, 3))
        inputs.append(Input(f"x{number}", tuple(own), rng.choice(["f32", "f16"]), " ".join(rng.sample(own, len(own)))))
    b = Builder("random", symbols, axes, inputs)
    values = [b.add("cast", place, dtype="f32") for place in range(len(inputs))]
    for _ in range(rng.randint(2, 7)):
        made = _step(b, rng, values, sizes, dynamic)
        if made is not None:
            values.append(made)
    outputs = [values[-1]]
    if rng.random() < 0.3:
        outputs.append(rng.choice(values))
    layouts: list[Output] = []
    for value in outputs:
        own = list(b.ops[value].axes)
        rng.shuffle(own)
        layouts.append(Output(value, " ".join(own), "f32"))
    return b.finish(layouts), {entry.name: sizes[entry.name.lower()] for entry in symbols}


def _step(b: Builder, rng: random.Random, values: list[int], sizes: dict[str, int], dynamic: bool) -> int | None:
    x, y = rng.choice(values), rng.choice(values)
    own = b.ops[x].axes
    kind = rng.choice(
        ["unary", "binary", "reduce", "contract", "rename", "mask", "weights", "slice", "merge", "size", "binary", "contract"]
    )
    match kind:
        case "unary":
            return b.add(rng.choice(UNARY), x)
        case "binary":
            return b.add(rng.choice(BINARY), x, y)
        case "reduce" if own:
            return b.add("reduce", x, attr=(rng.choice(["sum", "max", "min"]), tuple(rng.sample(own, rng.randint(1, min(2, len(own)))))))
        case "contract" if set(own) & set(b.ops[y].axes):
            shared = sorted(set(own) & set(b.ops[y].axes))
            return b.add("contract", x, y, attr=((rng.choice(shared),),), dtype="f32")
        case "rename" if own:
            axis = rng.choice(own)
            other = axis[:-1] if axis.endswith("2") else axis + "2"
            return None if other in own or other[0] + "2" not in (axis, other) else b.add("rename", x, attr=(((axis, other),),))
        case "mask" if len(own) > 1:
            i, j = rng.sample(own, 2)
            ok = b.add("compare", b.add("iota", attr=(i,)), b.add("iota", attr=(j,)), attr=(rng.choice(["le", "lt", "ge"]),))
            fill = b.add("constant", attr=(rng.choice([0.0, 1.5, -3.0]),))
            return b.add("select", ok, x, fill)
        case "weights" if own:
            axis = rng.choice(own)
            masked = x
            if len(own) > 1 and rng.random() < 0.5:
                other = rng.choice([name for name in own if name != axis])
                ok = b.add("compare", b.add("iota", attr=(axis,)), b.add("iota", attr=(other,)), attr=("le",))
                masked = b.add("select", ok, x, b.add("constant", attr=(float("-inf"),)))
            p = b.add("exp", b.add("mul", masked, b.add("constant", attr=(0.5,))))
            return b.add("div", p, b.add("reduce", p, attr=("sum", (axis,))))
        case "slice" if own and not dynamic and not own[0].endswith("2"):
            axis = own[0]
            if sizes.get(axis, 0) < 4:
                return None
            name = f"{axis}s"
            if name not in {entry.name for entry in b.axes}:
                b.axes.append(Axis(name, extent(sizes[axis] // 2 - 1)))
            return b.add("slice", x, attr=(axis, name, extent(1), extent(2))) if name not in own else None
        case "merge" if len(own) > 1 and not dynamic:
            outer, inner = own[:2]
            name = f"{outer}_{inner}"
            known = {entry.name: entry.extent for entry in b.axes}
            if name not in known:
                b.axes.append(Axis(name, extent(f"({known[outer]})*({known[inner]})")))
            merged = b.add("merge", x, attr=((outer, inner), name))
            return b.add("reduce", merged, attr=(rng.choice(["sum", "max"]), (name,)))
        case "size" if own:
            return b.add("div", x, b.add("cast", b.add("size", attr=(own[0],)), dtype="f32"))
        case _:
            return None


@pytest.mark.parametrize("seed", range(60))
def test_static_graphs(seed: int) -> None:
    graph, _ = random_graph(seed)
    graph = stabilize(graph)
    agrees(graph, scheduled(graph, options=ScheduleOptions(plans=24)), seed=seed)


@pytest.mark.parametrize("seed", range(1000, 1025))
def test_dynamic_graphs(seed: int) -> None:
    """Scheduled at its hints, run at others, ones and zeros included where nothing divides by a size."""
    graph, hints = random_graph(seed, dynamic=True)
    graph = stabilize(graph)
    program = scheduled(graph, hints, tuple(hints), ScheduleOptions(plans=24))
    rng = random.Random(seed)
    for _ in range(2):
        sizes = {name: rng.choice([1, 2, 9, 33]) for name in hints}
        agrees(graph, program, sizes, seed=seed)


def test_a_graph_no_kernel_can_hold_is_refused() -> None:
    """A symbol without a size is named."""
    graph, _ = random_graph(3, dynamic=True)
    with pytest.raises(CleaveError, match="has no size"):
        scheduled(graph)
