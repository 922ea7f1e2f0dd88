"""Mutants: a sample of those that `cleave-bench search --mutants` judges in full."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleave.bench.judging import Judgement, judged, oracle
from cleave.bench.mutants import KINDS, Mutant, changed, changes, kinds, mutants
from cleave.bench.search_programs import attention, low_rank, root_norm_linear
from cleave.bench.search_report import report
from cleave.graph import Graph
from cleave.search.verify import Verifier

SAMPLE = 12


@pytest.fixture(scope="module")
def judgements() -> list[Judgement]:
    return list(judged(SAMPLE))


def test_no_mutant_is_judged_wrongly(judgements: list[Judgement]) -> None:
    """Neither a false accept nor a false reject, and both kinds of mutants are there in numbers."""
    assert [entry for entry in judgements if entry.wrong] == []
    kinds = Counter(entry.equal for entry in judgements)
    assert kinds[False] >= 200
    assert kinds[True] >= 20
    assert kinds[None] <= len(judgements) // 50


def test_the_corpus_has_a_dozen_programs_and_their_alternatives(judgements: list[Judgement]) -> None:
    programs = {entry.program for entry in judgements}
    assert sum("alternative" not in name for name in programs) >= 13
    assert sum("split" in name for name in programs) >= 3
    assert min(Counter(entry.program for entry in judgements).values()) == SAMPLE


def test_every_kind_of_mistake_is_there_and_refused(judgements: list[Judgement]) -> None:
    """A factor dropped, a wrong axis, a mask turned or shifted, an epsilon moved, a constant nudged, a wrong rescale."""
    refused = Counter(kind for entry in judgements if not entry.accepted for kind in entry.kinds)
    assert set(refused) == set(KINDS)
    assert all(len(entry.kinds) >= 1 for entry in judgements)
    accepted = Counter(kind for entry in judgements if entry.accepted for kind in entry.kinds)
    assert accepted["other form of the same value"] > 0


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("strict, one further on at %7", ("mask shifted",)),
        ("1e-06 nudged to 1.001e-06 at %3, iota of m at %2", ("constant nudged", "wrong axis")),
        ("0.5 scaled to -0.5 at %3", ("wrong rescale",)),
        ("the inverse, then a product at %9, operands swapped at %1", ("other form of the same value", "operands swapped")),
        ("ge for le at %4", ("mask transposed or turned",)),
        ("silu for exp at %4", ("other operation",)),
        ("%3 for %2 at %4", ("other operand",)),
    ],
)
def test_names_say_what_is_wrong(name: str, wanted: tuple[str, ...]) -> None:
    assert kinds(name) == wanted


@pytest.mark.parametrize("graph", [attention(), root_norm_linear(), low_rank(False)], ids=["attention", "norm", "low rank"])
def test_mutants_are_well_formed_distinct_and_the_same_for_a_seed(graph: Graph) -> None:
    found = list(mutants(graph, 5, 30))
    assert len(found) == len({mutant.graph.ops for mutant in found}) == 30
    assert [mutant.name for mutant in mutants(graph, 5, 30)] == [mutant.name for mutant in found]
    assert [mutant.name for mutant in mutants(graph, 6, 30)] != [mutant.name for mutant in found]
    for mutant in found:
        assert mutant.graph != graph
        assert mutant.graph.inputs == graph.inputs
        assert [o.layout for o in mutant.graph.outputs] == [o.layout for o in graph.outputs]


def first_order(graph: Graph) -> Iterator[Mutant]:
    """Every mutant of one change."""
    seen = {graph.ops}
    for at in range(len(graph.ops)):
        for name, make in changes(graph, at):
            made = changed(graph, at, make)
            if made is not None and made.ops not in seen:
                seen.add(made.ops)
                yield Mutant(f"{name} at %{at}", made)


@pytest.mark.parametrize(
    ("what", "equal"),
    [
        ("max for sum at", False), ("size of", False), ("operand 1 moved by 1", False), ("iota of", False), ("1e-06", False),
        ("function dropped", False), ("an operand moved out", False), ("over m at", False), ("strict, one further on", True),
        ("the inverse, then a product", True), ("1 over the root", True), ("operands swapped", None),
    ],
)  # fmt: skip
def test_every_kind_of_mistake_occurs(what: str, equal: bool | None) -> None:
    """Of the kinds that must be wrong, or right, every mutant is; swapped operands are either."""
    found = [(g, m) for g in (attention(), root_norm_linear()) for m in first_order(g) if what in m.name]
    assert found
    truths = {oracle(graph, mutant.graph) for graph, mutant in found}
    assert truths == ({True, False} if equal is None else {equal})
    for graph, mutant in found:
        assert (Verifier(graph, 3).problem(mutant.graph) is None) == oracle(graph, mutant.graph), mutant.name


def test_the_report_counts_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mutants.json"
    code = report("", 1, path)
    figures = json.loads(path.read_text())
    assert code == (1 if figures["wrong"] else 0)
    assert sum(figures["mutants"].values()) >= 25
    assert "mutants in" in capsys.readouterr().out
