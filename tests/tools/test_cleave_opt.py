"""The driver: options, exit codes, output that is whole or absent, and what a start costs."""

import io
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from cleave.tools import cleave_opt

BIN = Path(sys.executable).parent
GOOD = "func.func @f(%a : i32) -> i32 {\n  func.return %a : i32\n}\n"
BAD = "func.func @f(%a : i32) -> i64 {\n  func.return %a : i32\n}\n"


def run(*args: str, source: str | bytes = GOOD, monkeypatch: pytest.MonkeyPatch) -> int:
    data = source.encode() if isinstance(source, str) else source
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return cleave_opt.main(args)


def test_prints_a_module(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == "builtin.module {\n  func.func @f(%a: i32) -> i32 {\n    func.return %a : i32\n  }\n}\n\n"


@pytest.mark.parametrize("option", ["-p=canonicalize,dce", "--pass-pipeline=builtin.module(canonicalize, dce)"])
def test_runs_pipelines_of_both_forms(option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dead = GOOD.replace("  func", "  %0 = arith.addi %a, %a : i32\n  func")
    assert run(option, source=dead, monkeypatch=monkeypatch) == 0
    assert "arith.addi" not in capsys.readouterr().out


def test_a_mistake_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(source=BAD, monkeypatch=monkeypatch) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stdin:2:3: error: func.return: ")
    assert err.count("\n") == 1


def test_chunks_keep_their_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--split-input-file", source=f"{GOOD}// -----\n{BAD}// -----\n{BAD}", monkeypatch=monkeypatch) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert [line[:19] for line in err.splitlines()] == ["stdin:6:3: error: f", "stdin:10:3: error: "]


def test_diagnostics_on_request_go_to_the_output(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--split-input-file", "--verify-diagnostics", source=f"{BAD}// -----\n{GOOD}", monkeypatch=monkeypatch) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("stdin:2:3: error: func.return: ")
    assert "\n// -----\nbuiltin.module {" in out


def test_no_output_file_is_left_by_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.mlir"
    assert run("-o", str(path), source=BAD, monkeypatch=monkeypatch) == 1
    assert not path.exists()
    assert run("-o", str(path), monkeypatch=monkeypatch) == 0
    assert path.read_text().startswith("builtin.module")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-p", "nope"), "no pass is named 'nope'"),
        (("-p", "canonicalize{x=3}"), "canonicalize has no option 'x'"),
        (("-p", "dce{"), "Expected argument name here"),
        (("-p", "dce", "--pass-pipeline=builtin.module(dce)"), "exclude each other"),
        (("--pass-pipeline=builtin.module(func.func(dce))",), "nested anchor 'func.func' at column 16"),
        (("-t", "mlir{x=1}"), "mlir has no option 'x'"),
        (("-t", "{"), "Expected pass name here"),
        (("--verify-equivalent", "a", "--verify-equivalent", "b"), "--verify-equivalent is given more than once"),
        (("-p=alg-superoptimize", "--emit-egraph", "a", "--emit-egraph=b"), "--emit-egraph is given more than once"),
        (("-p=alg-superoptimize", "--emit-egraph=a", "--split-input-file"), "--emit-egraph and --split-input-file exclude each other"),
        (("-p", "alg-superoptimize{cost_factor=inf}"), "alg-superoptimize: option cost_factor is inf; write a finite number"),
        (("-p", "alg-superoptimize{hoist=1}"), "alg-superoptimize: option hoist is 1; write true or false"),
        (("-p", "alg-select{alternative=1}"), 'alg-select: option alternative is 1; write text in quotes, as in alternative="1"'),
        (("-t", "ttir{kernel=1}"), "ttir: option kernel is 1; write text in quotes"),
        (("absent.mlir",), "absent.mlir: No such file or directory"),
    ],
)
def test_usage_mistakes_are_exit_code_2(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*args, monkeypatch=monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("arm-asm", "this target of xDSL does not support this module; print the module with -t mlir, triton or ttir"),
        ("riscv-asm", "this target of xDSL does not support this module;"),
        ("x86-asm", "this target of xDSL does not support this module;"),
        ("mps", "this target of xDSL does not support this module (MPS backend not yet implemented);"),
        ("csl", "this target of xDSL does not support this module (Expected all top-level operations to be `csl.module` ops!);"),
        ("wat", "this target of xDSL prints nothing for this module;"),
        ("triton", "there is no tt.func in the module;"),
    ],
)
def test_a_target_that_does_not_fit_the_module(
    target: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("-t", target, monkeypatch=monkeypatch) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_a_target_whose_package_is_not_installed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.delitem(sys.modules, "xdsl.backend.llvm.convert", raising=False)
    assert run("-t", "llvm", monkeypatch=monkeypatch) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: llvm: this target of xDSL needs the Python package llvmlite")
    assert err.count("\n") == 1


def installed(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package `mlir` as the extra of that name installs it, of which the program is a script; no other is on the path."""
    program = folder / "mlir" / "bin" / "mlir-opt"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PATH", "/bin")


@pytest.mark.parametrize("name", ["mlir-opt", "apply-eqsat-pdl"])
def test_a_pass_whose_program_is_not_installed(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(cleave_opt, "find_spec", lambda name: None)
    assert run("-p", name, monkeypatch=monkeypatch) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"stdin:1:1: error: {name}: this pass of xDSL runs the program mlir-opt, which is not on the path; put it there")
    assert err.count("\n") == 1


def test_upstream_mlir_opt_is_found_where_the_extra_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "cat", monkeypatch)
    assert run("-p", "mlir-opt", monkeypatch=monkeypatch) == 0
    assert "func.return %a : i32" in capsys.readouterr().out


def test_what_upstream_mlir_opt_says_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, "echo '<stdin>:1:1: error: no' >&2; exit 1", monkeypatch)
    assert run("-p", "mlir-opt", monkeypatch=monkeypatch) == 1
    assert capsys.readouterr().err == "stdin:1:1: error: mlir-opt: Error executing mlir-opt pass (<stdin>:1:1: error: no)\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("apply-pdl-interp", "this pass of xDSL does not support this module (AssertionError: matcher function not found)"),
        ("convert-arith-to-riscv", "this pass of xDSL does not support this module (NotImplementedError: Only 32 bit integers"),
    ],
)
def test_a_pass_of_xdsl_that_does_not_fit_the_module(
    name: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = GOOD.replace("  func", '  %0 = arith.constant 1 : i64\n  "test.op"(%0) : (i64) -> ()\n  func')
    assert run("-p", name, source=wide, monkeypatch=monkeypatch) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"stdin:1:1: error: {name}: {message}")
    assert err.count("\n") == 1


def test_a_bug_of_a_pass_of_ours_is_to_be_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(self: object, ctx: object, op: object) -> None:
        raise ValueError("nothing")

    monkeypatch.setattr("cleave.passes.alg_select.AlgSelectPass.apply", apply)
    assert run("-p=alg-select", monkeypatch=monkeypatch) == 1
    assert "error: alg-select: internal error, ValueError: nothing (test_cleave_opt.py:" in capsys.readouterr().err


def test_every_pass_is_listed_with_documented_options(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--list-passes", monkeypatch=monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in cleave_opt.CLEAVE_UNIVERSE.all_passes:
        at = lines.index(name)
        assert lines[at + 1].strip(), f"{name} has no summary"
    for line, after in pairwise(lines):
        if line.startswith("    ") and not line.startswith("     ") and ": " in line and after.startswith("        "):
            assert after.strip(), f"option '{line.strip()}' has no documentation"


def test_starts_without_what_takes_long_to_import() -> None:
    slow = "{'torch', 'triton'} & {*sys.modules}"
    code = f"import sys; from cleave.tools import cleave_opt as t; t.main(['--list-passes']); sys.exit(bool({slow}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_closed_pipe_is_quiet() -> None:
    text = "".join(GOOD.replace("@f", f"@f{i}") for i in range(3000))
    command = f"{BIN}/cleave-opt | head -n 1"
    done = subprocess.run(["bash", "-c", command], input=text, text=True, capture_output=True, check=False)
    assert (done.stdout, done.stderr) == ("builtin.module {\n", "")


@pytest.mark.parametrize("command", ["cleave-opt", "cleave-run"])
def test_an_interrupt_is_quiet(command: str, tmp_path: Path) -> None:
    """
    It ends by the signal, as the shell expects. Who opens a pipe to write waits for the program to open it to read. What a shell runs in
    the background ignores interrupts, and what that starts as well.
    """
    path = tmp_path / "program.mlir"
    os.mkfifo(path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with subprocess.Popen([f"{BIN}/{command}", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done, path.open("wb"):
            done.send_signal(signal.SIGINT)
            assert (done.wait(20), done.stderr.read() if done.stderr else b"") == (-signal.SIGINT, b"")
    finally:
        signal.signal(signal.SIGINT, before)


def test_stock_xdsl_opt_finds_the_universe() -> None:
    text = "alg.graph @f axes [i = 4] (%x: !alg.tensor<[i], f32>) -> (!alg.tensor<[i], f32>) {\n  alg.yield %x : !alg.tensor<[i], f32>\n}\n"
    done = subprocess.run([f"{BIN}/xdsl-opt", "-p", "alg-bind"], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "alg.graph @f" in done.stdout


GRAPH = """alg.graph @f axes [i = 4] (%x: !alg.tensor<[i], f32>) -> (!alg.tensor<[i], f32>) {
  %y = alg.exp %x : !alg.tensor<[i], f32>
  alg.yield %y : !alg.tensor<[i], f32>
}
"""


def searched(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The graph with alternatives, as text without the module around it."""
    assert run("-p=alg-superoptimize", source=GRAPH.replace("@f", "@g"), monkeypatch=monkeypatch) == 0
    return "\n".join(capsys.readouterr().out.strip().splitlines()[1:-1])


def test_an_e_graph_that_is_not_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, path = searched(capsys, monkeypatch), tmp_path / "e.json"
    command = ("-p=alg-superoptimize", "--emit-egraph", str(path))
    assert run(*command, source=source, monkeypatch=monkeypatch) == 1
    assert "error: alg.graph: @g has alternatives already, so it is not searched; give the program" in capsys.readouterr().err
    assert run(*command, source=GOOD, monkeypatch=monkeypatch) == 1
    assert "there is no alg.graph; there is no e-graph to write" in capsys.readouterr().err
    assert not path.exists()


def test_graphs_whose_e_graph_is_left_out_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, path = f"{searched(capsys, monkeypatch)}\n{GRAPH}", tmp_path / "e.json"
    assert run("-p=alg-superoptimize", "--emit-egraph", str(path), source=source, monkeypatch=monkeypatch) == 0
    assert f"remark: alg.graph: {path} has no e-graph of @g, which has alternatives already\n" in capsys.readouterr().err
    assert path.read_text().startswith('{"f": ')
