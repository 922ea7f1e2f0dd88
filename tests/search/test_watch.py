"""How far a search has come is told to whoever asks, and shown on a terminal only."""

from __future__ import annotations

import os
import pty
import re
from functools import partial
from pathlib import Path

import pytest
from xdsl.context import Context

from cleave.bench.search_programs import attention, transformer
from cleave.passes import alg_superoptimize
from cleave.passes.alg_superoptimize import AlgSuperoptimizePass
from cleave.runtime.progress import Progress
from cleave.search import superoptimize
from tests.alg_programs import parsed

TEXT = """
alg.graph @head axes [m = ?(hint 512), n = ?(hint 4096), d = 64, e = 64]
    (%q: !alg.tensor<[m, d], f16>, %k: !alg.tensor<[n, d], f16>, %v: !alg.tensor<[n, e], f16>) -> (!alg.tensor<[m, e], f32>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
  %p = alg.exp %s : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %w = alg.div %p, %z : !alg.tensor<[m, n], f32>
  %h = alg.cast %w : !alg.tensor<[m, n], f16>
  %o = alg.contract %h, %v over [n] : !alg.tensor<[m, e], f32>
  alg.yield %o : !alg.tensor<[m, e], f32>
}
"""


def test_every_stage_is_told_with_classes() -> None:
    """In order; and being watched changes nothing."""
    seen: list[str] = []
    found = superoptimize(transformer(1), watch=seen.append)
    stages = list(dict.fromkeys(re.split(r"[, ]", text)[0] for text in seen))
    assert stages == ["closure", "extraction", "verification"]
    assert all(re.search(r"\d+ classes", text) for text in seen)
    assert repr(superoptimize(transformer(1)).alternatives) == repr(found.alternatives)


@pytest.mark.parametrize("mode", ["rules", "enumerate"])
def test_a_terminal_shows_the_stage_and_is_left_clean(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Title, stage, classes and seconds, written over and cleared; shown at once here, where there is no patience."""
    main, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(alg_superoptimize, "Progress", partial(Progress, stream=stream, patience=0.0))
        AlgSuperoptimizePass(mode=mode, enumerate_ops=4).apply(Context(), parsed(TEXT))
        shown = os.read(main, 1 << 16).decode()
    os.close(main)
    assert re.search(r"\r\x1b\[Ksearch of @head: closure, \d+ classes, 0 s", shown)
    assert shown.endswith("\r\x1b[K")


def test_a_pipe_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(alg_superoptimize, "Progress", partial(Progress, stream=stream, patience=0.0))
        AlgSuperoptimizePass().apply(Context(), parsed(TEXT))
    with os.fdopen(reading) as stream:
        assert stream.read() == ""


def test_the_search_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither it nor any of its modules has a call of print."""
    superoptimize(attention())
    assert capfd.readouterr() == ("", "")
    for path in (Path(__file__).parents[2] / "cleave" / "search").glob("*.py"):
        assert "print(" not in path.read_text(), path.name
