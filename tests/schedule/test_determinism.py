"""The same program whatever the order of sets and dictionaries."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from cleave.bridge.sched import module_of
from cleave.graph import Graph, Symbol
from cleave.schedule import TARGETS, space
from cleave.schedule.candidates import TIMED
from tests.schedule.programs import attention, norm_linear, split_attention

SCRIPT = """
from cleave.bridge.sched import module_of
from cleave.schedule import ScheduleOptions
from tests.schedule.programs import attention, norm_linear, scheduled, split_attention
for graph in (attention(b="2", g="2", r="4", m="30", n="70", mask="window", lse=True), norm_linear(gated=True), split_attention(lse=True)):
    print(module_of(scheduled(graph)))
large = attention(b="4", g="8", m="4000", n="4000", d="128", e="128", mask="causal")
print(module_of(scheduled(large, options=ScheduleOptions(peel=True))))
"""


def test_the_hash_seed_changes_nothing() -> None:
    texts: list[str] = []
    for seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        root = Path(__file__).parents[2]
        made = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, cwd=root, capture_output=True, text=True, check=True)
        texts.append(made.stdout)
    assert "sched.kernel" in texts[0] and "sched.if" in texts[0]
    assert texts[0] == texts[1] == texts[2]


SENT = {
    "attention": attention(b="2", g="2", r="4", m="m", n="n", mask="window", symbols=[Symbol("m"), Symbol("n")]),
    "norm and product": norm_linear(gated=True),
    "split attention": split_attention(lse=True),
}


@pytest.mark.parametrize("graph", SENT.values(), ids=SENT)
def test_what_another_process_planned_is_the_same(graph: Graph) -> None:
    """All that may be timed, with launches that overlap and stream, and the estimates at other sizes."""
    sizes = {symbol.name: symbol.hints[0] if symbol.hints else 100 for symbol in graph.symbols}
    target = TARGETS["h200"]
    here = space([graph], sizes, frozenset(sizes) & {"m", "n"}, target, TIMED)
    there = pickle.loads(pickle.dumps(here))
    trials = here.trials(24)
    trials += [other for trial in trials[:4] for other in (*here.overlaps(trial), here.streams(trial)) if other is not None]
    assert [
        *there.trials(24),
        *(other for trial in trials[:4] for other in (*there.overlaps(trial), there.streams(trial)) if other),
    ] == trials
    assert len(trials) > 3
    other = {name: 3 * size + 1 for name, size in sizes.items()}
    for trial in trials:
        assert there.text(trial) == here.text(trial)
        assert str(module_of(there.program(trial))) == str(module_of(here.program(trial)))
        assert there.prediction(trial, target).seconds(other) == here.prediction(trial, target).seconds(other)
