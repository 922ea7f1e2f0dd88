"""Generated files: names that would run code, and constructs that Python reads otherwise than IR."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from cleave.extents import extent
from cleave.runtime.execute import executable, execute
from cleave.runtime.interpreter import INTERPRETER
from cleave.schedule.program import For, Last, Release, Store, Wait, When
from tests.tile_programs import CASES


def test_hostile_names_are_renamed() -> None:
    """Buffers, kernels and notes of every kind of text; axes and symbols are names already, of which some are keywords."""
    case = CASES["rows"]
    program = case.program()
    kernel = program.kernels[0]
    noted = replace(kernel, name="import", body=kernel.body)
    for statement in noted.body:
        if not isinstance(statement, Store | For | When | Last | Wait | Release):
            statement.out.note = "x\nimport os; os.abort()\n"
            statement.out.name = "os.abort()\n"
    renamed = replace(
        program,
        name="launch",
        kernels=(noted,),
        steps=(replace(program.steps[0], kernel="import"),),  # pyright: ignore[reportCallIssue]
        sizes=(("b", extent("lambda")), ("n", extent("class"))),
    )
    ready = executable(renamed)
    assert "\nimport os" not in ready.file.text
    assert "abort" not in re.sub(r"  # .*", "", ready.file.text), "only in comments"
    inputs = case.inputs()
    (result,) = execute(ready, inputs)
    np.testing.assert_allclose(result, case.expected(*inputs), rtol=1e-5, atol=1e-6)
    (again,) = INTERPRETER.launch(ready.file.text, [inputs[0].astype(np.float32)])
    np.testing.assert_array_equal(again, result)


def test_text_does_not_depend_on_the_run() -> None:
    """The same program twice gives the same file."""
    for case in CASES.values():
        assert executable(case.program()).file.text == executable(case.program()).file.text
