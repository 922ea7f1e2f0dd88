"""The same program whatever the order of sets and dictionaries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
