"""The cache on disk: atomic, checked, shared between processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import cleave
from cleave.runtime.cache import Store, folder, key_of, versions


def test_values_come_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    assert store.get("results", "ab" * 32) is None
    assert store.put("results", "ab" * 32, {"image": b"\x00\x01", "times": (1.5, 2.5)})
    assert Store(tmp_path / "cache").get("results", "ab" * 32) == {"image": b"\x00\x01", "times": (1.5, 2.5)}
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["short", "flipped", "empty", "foreign"])
def test_a_corrupt_entry_is_missing_and_can_be_rebuilt(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    key = key_of("graph", 1)
    store.put("results", key, list(range(100)))
    path = store.path("results", key)
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[-7] ^= 1
    path.write_bytes({"short": data[:-3], "flipped": data, "empty": b"", "foreign": b"x" * 400}[damage])
    assert store.get("results", key) is None
    assert store.damaged == 1 and not path.exists()
    store.put("results", key, "again")
    assert store.get("results", key) == "again"


def test_a_value_of_a_class_that_is_gone_is_missing(tmp_path: Path) -> None:
    lines = ["import pathlib, sys", "from cleave.runtime.cache import Store", "class Gone: pass"]
    lines.append("Store(pathlib.Path(sys.argv[1])).put('k', 'a' * 64, Gone())")
    subprocess.run([sys.executable, "-c", "\n".join(lines), str(tmp_path)], check=True)
    store = Store(tmp_path)
    assert store.path("k", "a" * 64).exists()
    assert store.get("k", "a" * 64) is None and store.damaged == 1


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 3, -1)


@pytest.mark.parametrize("kinds", [("programs",), ("programs", "kernels")])
def test_damaged_entries_are_told_of(kinds: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are read by the processes that compile."""
    monkeypatch.setenv("CLEAVE_CACHE_DIR", str(tmp_path))

    def remarks() -> list[str]:
        found = cleave.compile(scaled, torch.ones(4, 64), tune=False, target="h200", alternatives=0).report().remarks
        return [remark for remark in found if "damaged" in remark]

    assert remarks() == [] == remarks()
    files = [path for kind in kinds for path in (tmp_path / kind).rglob("*") if path.is_file()]
    for path in files:
        path.write_bytes(path.read_bytes()[:-1])
    (told,) = remarks()
    # Of the kernels those of what is chosen are read for certain.
    count = int(told.removeprefix("entries of the cache that were damaged, and are made again: ").split(" ")[0])
    assert len(kinds) <= count <= len(files) and str(tmp_path) in told


EDITS = {
    "nothing": ("", ""),
    "a field more": ("    wgmma: int = 0\n", "    wgmma: int = 0\n    later: int = 7\n"),
    "a field less": ("    wgmma: int = 0\n", ""),
    "another order": (
        "    registers: int\n    spills: int\n    arguments: int\n",
        "    arguments: int\n    registers: int\n    spills: int\n",
    ),
    "another name": ("    threads: int\n", "    lanes: int\n"),
}
READS = """
import dataclasses, sys
from pathlib import Path
from cleave.runtime.binary import Binary
from cleave.runtime import compile
from cleave.runtime.build import build
from cleave.runtime.cache import Store
from tests import tile_programs

made = []
names = [entry.name for entry in dataclasses.fields(Binary)]
class Compiled:
    binary = Binary(*(f"<{name}>" for name in names))
def compile_kernel(*given):
    made.append(given)
    return Compiled
import cleave.runtime.build as module
module.compile_kernel = compile_kernel
store = Store(Path(sys.argv[1]))
(binary,) = build(tile_programs.rows(), "sm_90", store=store).binaries.values()
assert [getattr(binary, name) for name in names] == [f"<{name}>" for name in names], binary
print(len(made), store.damaged)
"""


@pytest.mark.parametrize("edit", EDITS)
def test_kernels_of_another_version_of_this_package_are_missing(edit: str, tmp_path: Path) -> None:
    """As one that has other fields would be read with the wrong ones, or without some."""
    root = Path(cleave.__file__).resolve().parent
    (tmp_path / "new").mkdir()
    shutil.copytree(root, tmp_path / "new" / "cleave", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(root.parent / "tests", tmp_path / "new" / "tests", ignore=shutil.ignore_patterns("__pycache__", "*data*"))
    file = tmp_path / "new" / "cleave" / "runtime" / "binary.py"
    text = file.read_text()
    assert EDITS[edit][0] in text
    file.write_text(text.replace(*EDITS[edit]) if edit != "nothing" else text)
    told: list[str] = []
    for place in (root.parent, tmp_path / "new", root.parent):
        command = [sys.executable, "-P", "-c", READS, str(tmp_path / "cache")]
        ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(place)}, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        told.append(ran.stdout.strip())
    assert told == ["1 0", "0 0" if edit == "nothing" else "1 0", "0 0"]


def test_writers_and_readers_at_once_never_see_half_a_value(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = key_of("shared")
    seen: set[int] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            value = store.get("k", key)
            if value is not None:
                seen.add(len(set(value)))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    writers = [threading.Thread(target=lambda n=n: [store.put("k", key, [n] * 20000) for _ in range(20)]) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stop.set()
    for reader in readers:
        reader.join()
    assert store.damaged == 0 and seen <= {1}
    assert store.get("k", key) in ([n] * 20000 for n in range(3))
    assert [path for path in tmp_path.rglob(".*") if path.is_file()] == []


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "cache")
    assert not store.put("k", "a" * 64, 1)
    assert store.get("k", "a" * 64) is None


def test_the_folder_is_the_environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLEAVE_CACHE_DIR", str(tmp_path))
    assert folder() == tmp_path and Store().root == tmp_path
    monkeypatch.delenv("CLEAVE_CACHE_DIR")
    assert folder().name == "cleave"


def test_keys_tell_their_parts_apart() -> None:
    assert len({key_of("a", "b"), key_of("ab"), key_of("a", "b", ""), key_of("a", ["b"]), key_of("b", "a")}) == 5
    assert any(entry.startswith("triton ") for entry in versions())
