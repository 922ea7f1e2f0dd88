"""The forms that the search finds for programs written plainly."""

from __future__ import annotations

import pytest

from cleave.search import superoptimize
from tests.search.programs import attention, contractions, needs, ops_of, result, without_casts


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
