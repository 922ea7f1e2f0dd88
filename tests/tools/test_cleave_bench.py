"""Mistakes in the command line of the benchmarks are found before anything is measured."""

from pathlib import Path

import pytest

from cleave.tools import cleave_bench


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command"),
        (["search", "--json", "{folder}"], "cannot be written: Is a directory"),
        (["search", "--json", "{folder}/absent/out.json"], "cannot be written: No such file or directory"),
        (["programs", "--json", "{folder}/absent/out.json"], "cannot be written"),
        (["search", "--mutants", "-1"], "'-1' is not a whole number from 1 up"),
        (["search", "--mutants", "many"], "'many' is not a whole number from 1 up"),
        (["programs", "--dtype", "float8"], "invalid choice: 'float8'"),
        (["subgraphs", "--size", "16", "x"], "argument --size: 'x' is not a whole number from 1 up"),
        (["subgraphs", "--shapes", "all"], "invalid choice: 'all'"),
        (["subgraphs", "--merge"], "expected at least one argument"),
        (["masks", "--plot", "{folder}"], "cannot be written: Is a directory"),
        (["dynamic", "--part", "3/2"], "'3/2' is not a part such as 1/2, the first of two"),
        (["dynamic", "--part", "2"], "'2' is not a part such as 1/2, the first of two"),
        (["sweep", "--limit", "0"], "'0' is not a whole number from 1 up"),
        (["sweep", "--merge", "x"], "unrecognized arguments: --merge x"),
        (["dynamic", "--seconds", "0"], "'0' is not a whole number from 1 up"),
    ],
)
def test_mistakes(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cleave_bench.main([argument.format(folder=tmp_path) for argument in arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_no_such_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert cleave_bench.main(["search", "--only", "nothing of this name"]) == 2
    assert capsys.readouterr().err == "cleave-bench: error: no program's name contains 'nothing of this name'\n"
