"""The e-graph as text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from xdsl.context import Context

from cleave.bench.search_programs import low_rank, root_norm_linear
from cleave.bench.writing import Write
from cleave.errors import CleaveError
from cleave.graph import Graph
from cleave.passes.alg_superoptimize import AlgSuperoptimizePass
from cleave.search import SearchOptions, superoptimize
from cleave.search.enumerate import enumerate_values
from cleave.search.explore import Exploration, explore
from cleave.search.picture import as_dot, as_json
from tests.alg_programs import parsed


def explored(graph: Graph) -> Exploration:
    found = explore(graph, SearchOptions())
    assert not isinstance(found, str), found
    return found


def test_json_has_every_class_with_its_forms() -> None:
    """The product x (w + 2 a b) is known as the sum of two contractions, and nothing else is lost."""
    found = explored(low_rank(True))
    (program,) = json.loads(as_json({"f": found})).values()
    assert [entry["class"] for entry in program["classes"]] == [f"c{c}" for c in range(len(found.egraph.classes))]
    assert sum(len(entry["forms"]) for entry in program["classes"]) == sum(len(entry.nodes) for entry in found.egraph.classes)
    assert {text for entry in program["classes"] for text in entry["operations"]} == {
        f"%{position} {op.kind}" for position, op in enumerate(found.graph.ops)
    }
    (root,) = program["results"]
    forms = next(entry["forms"] for entry in program["classes"] if entry["class"] == root)
    assert any(form.startswith("sum[k]") for form in forms)
    assert any(" + " in form for form in forms)


def test_dot_draws_every_form_to_its_class() -> None:
    """Boxes are classes, ellipses forms; every edge has both its ends."""
    found = explored(root_norm_linear())
    text = as_dot({"f": found, "g": found})
    nodes = set(re.findall(r"^ +(\w+) \[shape", text, re.MULTILINE))
    edges = re.findall(r"^ +(\w+) -> (\w+);", text, re.MULTILINE)
    assert text.count("shape=box") == 2 * len(found.egraph.classes)
    assert edges and {end for edge in edges for end in edge} <= nodes
    assert text.count("style=bold") == 2
    assert text.count("{") == text.count("}")


def test_the_text_is_the_same_every_time() -> None:
    assert as_json({"f": explored(low_rank(False))}) == as_json({"f": explored(low_rank(False))})


def test_what_cannot_be_searched_is_said(tmp_path: Path) -> None:
    """A tensor of seventy axes is beyond numpy, for the picture, the search and enumeration alike; the pass says where."""
    names = [f"a{i}" for i in range(70)]
    w = Write(dict.fromkeys(names, 2), {"x": " ".join(names)})
    graph = w.done(w.sum(names[0], w.args[0]))
    reason = "70 axes are more than the 56 a search can tell apart"
    assert explore(graph, SearchOptions()) == reason
    assert enumerate_values(graph).caps == (reason,)
    assert superoptimize(graph).caps == (f"{reason}; nothing was searched",)
    axes = ", ".join(names)
    text = (
        f"alg.graph @f axes [{', '.join(f'{name} = 2' for name in names)}] (%x: !alg.tensor<[{axes}], f32>)"
        f" -> (!alg.tensor<[{axes}], f32>) {{\n  %y = alg.exp %x : !alg.tensor<[{axes}], f32>\n"
        f"  alg.yield %y : !alg.tensor<[{axes}], f32>\n}}\n"
    )
    with pytest.raises(CleaveError, match=f"{reason}; there is no e-graph to write"):
        AlgSuperoptimizePass(emit_egraph=str(tmp_path / "out.json")).apply(Context(), parsed(text))
