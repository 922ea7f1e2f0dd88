"""The e-graph as text."""

from __future__ import annotations

import json
import re

from cleave.bench.search_programs import low_rank, root_norm_linear
from cleave.graph import Graph
from cleave.search import SearchOptions
from cleave.search.explore import Exploration, explore
from cleave.search.picture import as_dot, as_json


def explored(graph: Graph) -> Exploration:
    found = explore(graph, SearchOptions())
    assert found is not None
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
