"""Files by name, standard streams for `-`: what fails says which file it was."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from cleave.files import read, replace, told, write


def test_exactly_the_file_named(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write(str(path), b"\x00\xff")
    assert read(str(path)) == b"\x00\xff"


@pytest.mark.parametrize("name", ["{folder}", "{folder}/absent/out", "/dev/full"])
def test_what_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    path = name.format(folder=tmp_path)
    with pytest.raises(OSError, match=path) as raised:
        write(path, b"text")
    assert told(raised.value).startswith(f"{path}: ")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out"
    replace(path, b"old")
    replace(path, b"new")
    with pytest.raises(TypeError):
        replace(path, cast(Any, "text"))
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError):
        replace(tmp_path / "absent" / "out", b"new")


def test_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"in")))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    print("first")
    write("-", b"then")
    assert (read("-"), out.getvalue()) == (b"in", b"first\nthen")


def test_closed_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OSError, match="standard input") as raised:
        read("-")
    assert told(raised.value) == "standard input: Bad file descriptor"
    with pytest.raises(OSError, match="standard output") as raised:
        write("-", b"text")
    assert told(raised.value) == "standard output: Bad file descriptor"


@pytest.mark.parametrize("module", ["cleave.tools.cleave_opt", "cleave.tools.cleave_run", "cleave.tools.cleave_bench"])
def test_tools_end_quietly_with_their_reader(module: str) -> None:
    """As `tool --help | true` does: no traceback, and the signal's own status."""
    code = f"import sys; sys.argv = ['tool', '--help']; from {module} import main; main()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert told == b""
