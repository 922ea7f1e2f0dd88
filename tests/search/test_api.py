"""The forms that the search finds for programs written plainly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from cleave.graph import Builder, Graph, Output
from cleave.search import Alternative, SearchOptions, superoptimize
from cleave.search.attributes import reduced_axes
from cleave.search.convert import degenerate
from cleave.search.explore import explore
from cleave.search.freedom import without_free_maxima
from cleave.search.split import dependent_reductions, split_axis, splittable
from cleave.search.values import Space
from cleave.search.verify import Verifier
from tests.search.programs import (
    Write,
    attention,
    centred_norm_linear,
    cross_entropy,
    focal_loss,
    latent_attention,
    linear_attention,
    log_probabilities,
    low_rank,
    matmul_matmul,
    matmul_rowsum,
    norm_gated,
    norm_linear,
    normed_attention,
    self_attention_block,
)
from tests.search.questions import contractions, needs, ops_of, phases, result, without_casts


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_division_moves_behind_the_second_contraction(safe: bool, causal: bool, grouped: bool) -> None:
    """The best alternative is contract(exp(x), v) / sum(exp(x)), with no maximum, and the mask stays inside the exp."""
    best = superoptimize(attention(safe, causal, grouped)).alternatives[1].graph
    last = result(best)
    assert last.kind == "div"
    above, below = (without_casts(best, arg) for arg in last.args)
    assert best.ops[above].kind == "contract"
    assert (best.ops[below].kind, best.ops[below].attr) == ("reduce", ("sum", ("n",)))
    assert contractions(best) == [(("d",), best.ops[ops_of(best, "exp")[0]].axes), (("n",), best.ops[above].axes)]
    assert not any(best.ops[i].attr[0] == "max" for i in ops_of(best, "reduce"))
    (exp,) = ops_of(best, "exp")
    assert exp in needs(best, above)
    assert exp in needs(best, below)
    assert (best.ops[best.ops[exp].args[0]].kind == "select") == causal
    assert result(best).dtype == "f32"
    assert best.ops[best.outputs[0].value].dtype == "f16"


def test_contractions_keep_the_types_of_the_program() -> None:
    """Every operand enters its contraction as f16, as written."""
    best = superoptimize(attention()).alternatives[1].graph
    assert [{best.ops[arg].dtype for arg in best.ops[i].args} for i in ops_of(best, "contract")] == [{"f16"}, {"f16"}]


def rank(alternatives: Sequence[Alternative], wanted: Callable[[Graph], bool]) -> int:
    """The place of the first alternative of a form; the program as written is at 0 and must not have it."""
    assert not wanted(alternatives[0].graph)
    return next(i for i, entry in enumerate(alternatives) if wanted(entry.graph))


def scaled_behind(graph: Graph, axis: str) -> bool:
    """Whether the root mean square is applied to the result: no contraction over the axis needs the rsqrt."""
    roots = ops_of(graph, "rsqrt")
    over = [i for i in ops_of(graph, "contract") if axis in reduced_axes(graph.ops[i])]
    return not any(root in needs(graph, i) for i in over for root in roots)


@pytest.mark.parametrize("gain", [False, True])
def test_a_factor_of_the_row_moves_behind_the_contraction(gain: bool) -> None:
    """rsqrt(mean(x^2) + eps) multiplies the result of (x g) W: one phase instead of two."""
    alternatives = superoptimize(norm_linear(gain)).alternatives
    assert rank(alternatives, lambda graph: scaled_behind(graph, "k")) == 1
    assert (phases(alternatives[0].graph), phases(alternatives[1].graph)) == (2, 1)
    assert len(ops_of(alternatives[1].graph, "contract")) == 1
    assert result(alternatives[1].graph).kind == "mul"


def test_both_contractions_of_a_gated_layer_share_one_factor() -> None:
    """silu(r a) (r b) with a and b contracted from the same x g, in one phase."""
    alternatives = superoptimize(norm_gated()).alternatives
    assert rank(alternatives, lambda graph: scaled_behind(graph, "k")) == 1
    best = alternatives[1].graph
    first, second = ops_of(best, "contract")
    assert set(best.ops[first].args) & set(best.ops[second].args)
    assert len(ops_of(best, "silu")) == 1
    assert phases(best) == 1


def test_a_chain_without_a_function_between_is_reassociated() -> None:
    """(q k^T) v becomes q (k^T v): nothing over both m and n is made."""
    best = superoptimize(linear_attention()).alternatives[1].graph
    assert [axes for axes, _ in contractions(best)] == [("n",), ("d",)]
    assert not any({"m", "n"} <= set(op.axes) for op in best.ops)
    product = superoptimize(matmul_matmul()).alternatives[1].graph
    assert [axes for axes, _ in contractions(product)] == [("n",), ("k",)]


def test_up_projections_are_absorbed_on_both_sides() -> None:
    """For one query the latent takes the place of keys and values: no operation is over heads, keys and head dimension."""

    def absorbed(graph: Graph) -> bool:
        return not any({"h", "n"} <= set(op.axes) and set(op.axes) & {"d", "e"} for op in graph.ops)

    alternatives = superoptimize(latent_attention(decode=True)).alternatives
    assert rank(alternatives, absorbed) == 1
    assert rank(superoptimize(latent_attention()).alternatives, absorbed) <= 3, (
        "it costs more where there are many queries, not where there are few"
    )


def test_a_low_rank_correction_is_merged_and_taken_apart() -> None:
    """x W + (x A) B and x (W + A B) each find the other."""
    apart = superoptimize(low_rank(merged=True)).alternatives
    assert rank(apart, lambda graph: not any({"k", "n"} == set(op.axes) for op in graph.ops if op.kind != "input")) == 1
    merged = superoptimize(low_rank()).alternatives
    assert rank(merged, lambda graph: len(ops_of(graph, "contract")) == 2) <= 2


def test_a_sum_of_columns_moves_into_the_weight() -> None:
    """rowsum(x W) = x rowsum(W)."""
    best = superoptimize(matmul_rowsum()).alternatives[1].graph
    assert not any({"m", "n"} <= set(op.axes) for op in best.ops)


@pytest.mark.parametrize("one_pass", [False, True])
def test_a_centred_norm_before_a_linear_layer_becomes_one_phase(one_pass: bool) -> None:
    """r (sum x g W - mean sum g W) + sum b W with the variance in one pass: all sums are independent of each other."""
    alternatives = superoptimize(centred_norm_linear(one_pass)).alternatives
    assert rank(alternatives, lambda graph: phases(graph) == 1) <= 3
    assert rank(alternatives, lambda graph: scaled_behind(graph, "k")) <= 3


def test_a_loss_over_classes_needs_no_maximum() -> None:
    """log(sum(exp(x))) - sum(x one) with independent sums; log(exp(max) z) gives its maximum back."""
    best = superoptimize(cross_entropy()).alternatives[1].graph
    assert not any(best.ops[i].attr[0] == "max" for i in ops_of(best, "reduce"))
    assert (phases(best), len(ops_of(best, "exp")), len(ops_of(best, "log"))) == (2, 1, 1)
    assert len(ops_of(best, "contract")) == 1, "the sum over classes was not a contraction, and stays in f32"
    rows = superoptimize(log_probabilities()).alternatives[1].graph
    assert not any(rows.ops[i].attr[0] == "max" for i in ops_of(rows, "reduce"))
    assert len(ops_of(rows, "exp")) == len(ops_of(rows, "log")) == 1


def test_norms_of_queries_and_keys_move_behind_their_product() -> None:
    """The product q k is taken first and scaled by both roots after it, so the sums over d are one phase."""
    alternatives = superoptimize(normed_attention()).alternatives
    assert rank(alternatives, lambda graph: scaled_behind(graph, "d") and phases(graph) == 2) <= 3


def test_an_axis_that_all_outputs_reduce_over_is_split() -> None:
    """Keys in chunks: contraction and sum over a chunk, then both over chunks, then the division, in one pass."""
    found = superoptimize(attention(safe=True, causal=True)).alternatives
    (split,) = [entry.graph for entry in found if entry.name == "1 split n"]
    assert split.axis("ni").chunk_of == ("n", "s")
    assert dependent_reductions(split, "ni") == dependent_reductions(split, "s") == 1
    last = result(split)
    above, below = (split.ops[arg] for arg in last.args)
    assert last.kind == "div"
    assert above.attr == below.attr == ("sum", ("s",))
    assert split.ops[above.args[0]].kind == "contract"
    assert {split.ops[i].axes for i in ops_of(split, "select")} == {("m", "s", "ni")}


def test_what_is_split_follows_from_dependences() -> None:
    """An output that keeps the axis, or does not reduce over it, forbids the split."""
    assert splittable(attention()) == ("n", "d")
    assert splittable(norm_linear()) == ("k",)
    assert splittable(log_probabilities()) == ("k",)
    w = Write({"m": "m", "k": "k"}, {"x": "m k", "y": "m"})
    assert splittable(w.done(w.sum("k", w.args[0]), w.args[1])) == ()


def test_a_chunk_count_need_not_divide() -> None:
    """A mean of the means of chunks is not the mean: the last chunk may be short."""
    w = Write({"m": "m", "k": "k"}, {"x": "m k"})
    whole = w.done(w.mean("k", w.args[0]))
    split = split_axis(whole, "k")
    assert Verifier(whole, 0).problem(split) is None
    inner, outer = ops_of(split, "reduce")
    builder = Builder("f", split.symbols, split.axes, split.inputs)
    leaf = builder.add("split", 0, attr=("k", "s", "ki"))
    partial = builder.add("reduce", leaf, attr=split.ops[inner].attr, dtype="f32")
    mean = builder.add("div", partial, builder.add("size", attr=("ki",)), dtype="f32")
    total = builder.add("reduce", mean, attr=split.ops[outer].attr, dtype="f32")
    means = builder.add("div", total, builder.add("size", attr=("s",)), dtype="f32")
    assert Verifier(whole, 0).problem(builder.finish([Output(means, "m", "f16")])) is not None


def test_a_maximum_that_matters_stays() -> None:
    """A shift by the row maximum goes where it cancels, the maximum of the rows themselves does not."""
    w = Write({"m": "m", "n": "n"}, {"x": "m n"})
    (x,) = w.args
    top = w.max("n", x)
    p = w.probabilities("n", x, safe=True)
    graph = w.done(p, top)
    space = Space(graph.axes, {"m": 2, "n": 2}, 3, 0)
    left = without_free_maxima(graph, space)
    assert [left.ops[i].attr for i in ops_of(left, "reduce")] == [("max", ("n",)), ("sum", ("n",))]
    assert without_free_maxima(w.done(p), space) != w.done(p)
    assert not any(op.attr[0] == "max" for op in without_free_maxima(w.done(p), space).ops if op.kind == "reduce")


def test_a_choice_that_a_draw_does_not_show_is_drawn_again() -> None:
    """relu(x) of two points is x in some draws; it must never be taken for x."""
    w = Write({"m": "m"}, {"x": "m", "y": "m"})
    x, y = w.args
    graph = w.done(w("relu", x), w("max", w("mul", x, y), -1.0))
    for seed in range(20):
        explored = explore(graph, SearchOptions(seed=seed))
        assert not isinstance(explored, str)
        assert not degenerate(explored.graph, explored.egraph, explored.converted)


def test_work_under_two_names_is_done_once() -> None:
    """y y^T with y = (x r) W: r moves out of y and is applied once; the second y is the first renamed, not another product."""
    w = Write({"m": "m", "n": "m", "k": 512, "d": 64}, {"x": "m k", "w": "k d"})
    x, weight = w.args
    y = w.dot("k", w("mul", x, w.root_mean_square("k", x)), weight)
    best = superoptimize(w.done(w("exp", w.dot("d", y, w.rename(y, m="n"))))).alternatives[1].graph
    assert scaled_behind(best, "k")
    assert len(ops_of(best, "contract")) == 2
    assert all(best.ops[best.ops[i].args[0]].kind != "input" for i in ops_of(best, "rename"))


def test_results_do_not_depend_on_the_hash_seed() -> None:
    """The same texts in processes with other seeds for the hashes of strings."""
    program = (
        "from cleave.search import superoptimize\n"
        "from tests.search.programs import centred_norm_linear, self_attention_block\n"
        "for graph in (centred_norm_linear(), self_attention_block()):\n"
        "    result = superoptimize(graph)\n"
        "    print([(entry.name, repr(entry.graph), entry.flops) for entry in result.alternatives], result.caps)\n"
    )
    texts = {
        subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True).stdout
        for seed in ("1", "2", "77")
    }
    assert len(texts) == 1


def test_a_short_budget_still_gives_the_program() -> None:
    """Out of time, the search returns what it has and says so."""
    result = superoptimize(self_attention_block(), SearchOptions(seconds=0.0))
    assert result.alternatives[0].name == "as written"
    assert any("stopped" in cap for cap in result.caps)


def test_sums_of_sums_are_not_opened_without_end() -> None:
    """Squares of sums times sums close by themselves, with each sum of a distribution joined in one way and not by subsets."""
    found = superoptimize(focal_loss(), SearchOptions(seconds=1e6))
    assert not any("stopped" in cap for cap in found.caps)
    assert found.stats["classes"] < 150
    best = min(found.alternatives[1:], key=lambda entry: entry.score)
    assert best.score < 0.85 * found.alternatives[0].score
    assert phases(best.graph) == 2


def test_caps_on_work_cut_a_search_short() -> None:
    """By counted work, not by the clock, and it is said."""
    found = superoptimize(focal_loss(), SearchOptions(seconds=1e6, classes=20, classes_each=0, steps=1000, steps_each=0))
    assert any("classes with" in cap for cap in found.caps) and found.stats["classes"] < 40
    assert len(found.alternatives) > 1


def test_exponentials_may_nest_and_say_when_too_deep() -> None:
    """Six levels of fields carry five exps; a sixth is an unknown function, and that is reported."""
    for depth in (3, 5, 7):
        w = Write({"m": "m", "n": "n"}, {"x": "m n"})
        x = w.args[0]
        for _ in range(depth):
            x = w("exp", x)
        result = superoptimize(w.done(w.sum("n", x)))
        assert any("nest too deep" in cap for cap in result.caps) == (depth > 5)


def test_operations_keep_their_places() -> None:
    """What an alternative shares with the program is still reported where the program has it."""
    graph = attention()
    graph = replace(graph, places=tuple(f"model.py:{i}:1" for i in range(len(graph.ops))))
    best = superoptimize(graph).alternatives[1].graph
    (exp,) = ops_of(best, "exp")
    assert best.places[exp] == f"model.py:{ops_of(graph, 'exp')[0]}:1"


def test_a_guard_against_nan_folds_away() -> None:
    """where(w != w, 0, w) is w: every value is taken to be a number."""
    w = Write({"m": "m", "n": "n", "d": 64, "e": 64}, {"q": "m d", "k": "n d", "v": "n e"})
    q, k, v = w.args
    p = w.probabilities("n", w.causal("m", "n", w.dot("d", q, k)))
    guarded = w("select", w("compare", p, p, attr=("ne",), dtype="i1"), 0.0, p)
    best = superoptimize(w.done(w.dot("n", guarded, v))).alternatives[1].graph
    assert len(ops_of(best, "select")) == 1
    assert result(best).kind == "div"


def test_an_additive_mask_stays_inside_the_exponential() -> None:
    """exp(x + mask) is not taken apart into exp(x) times a factor over the same axes: a maximum must see masked logits."""
    w = Write({"m": "m", "n": "n", "d": 64, "e": 64}, {"q": "m d", "k": "n d", "v": "n e"})
    q, k, v = w.args
    mask = w.causal("m", "n", w.number(0.0))
    p = w.probabilities("n", w("add", w.dot("d", q, k), mask), safe=True)
    best = superoptimize(w.done(w.dot("n", p, v))).alternatives[1].graph
    (exp,) = ops_of(best, "exp")
    assert ops_of(best, "select")[0] in needs(best, exp)
    assert result(best).kind == "div"


def test_work_on_weights_may_count_as_done() -> None:
    """With `hoist`, the gain goes into the weight, x (g W), instead of into every row."""
    graph = norm_linear()
    graph = replace(graph, inputs=tuple(replace(entry, weight=entry.name != "x") for entry in graph.inputs))
    plain, hoisted = (superoptimize(graph, SearchOptions(hoist=hoist)).alternatives for hoist in (False, True))

    def merged(entry: Alternative) -> bool:
        return any(op.kind == "mul" and op.axes == ("k", "n") for op in entry.graph.ops)

    assert not merged(plain[1])
    assert merged(hoisted[1])
