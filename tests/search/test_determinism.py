"""The alternatives are a function of the graph and the options: not of the hash seed, and valid whenever time runs out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cleave.bench.search_programs import attention, layer_norm_linear, residual_on_sphere
from cleave.graph import Graph
from cleave.search import SearchOptions, superoptimize
from cleave.search.verify import Verifier

TEXT = """
from cleave.bench import search_programs as programs
from cleave.search import superoptimize
for graph in (programs.attention(), programs.root_norm_gated(), programs.layer_norm_linear(True), programs.low_rank(True),
              programs.latent_attention(True), programs.residual_on_sphere(), programs.transformer(1)):
    result = superoptimize(graph)
    print(result.alternatives, result.caps)
"""


def test_alternatives_do_not_depend_on_the_hash_seed() -> None:
    """All graphs, names, formulas and caps are the same under eight values of PYTHONHASHSEED."""
    texts: set[bytes] = set()
    root = Path(__file__).parents[2]
    for first in range(0, 8, 2):
        running = [
            subprocess.Popen(
                [sys.executable, "-c", TEXT], stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONHASHSEED": str(seed)}
            )
            for seed in (first, first + 1)
        ]
        for process in running:
            text, _ = process.communicate(timeout=300)
            assert process.returncode == 0
            texts.add(text)
    assert len(texts) == 1
    assert len(texts.pop()) > 10000


@pytest.mark.parametrize("seconds", [0.0, 0.05])
@pytest.mark.parametrize("graph", [attention(), layer_norm_linear(False), residual_on_sphere()], ids=["attention", "layer norm", "sphere"])
def test_a_short_time_still_gives_programs(graph: Graph, seconds: float) -> None:
    """At least the program as written, and all that is there is right."""
    result = superoptimize(graph, SearchOptions(seconds=seconds))
    assert result.alternatives[0].graph == graph
    for entry in result.alternatives[1:]:
        assert Verifier(graph, 11).problem(entry.graph) is None
    if seconds == 0:
        assert any("stopped after 0 s" in cap for cap in result.caps)
