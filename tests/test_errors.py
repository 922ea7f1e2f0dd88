"""`CleaveError` is one located line, and survives the way back from a worker process."""

import pickle

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr

from cleave.errors import CleaveError


def test_reads_as_one_line() -> None:
    error = CleaveError("model.mlir:4:5", "axis 'k' is\nnot in the right operand", "rename it", op="alg.contract")
    assert str(error) == "model.mlir:4:5: error: alg.contract: axis 'k' is not in the right operand; rename it"
    assert str(CleaveError(None, "no input")) == "error: no input"


def test_takes_place_and_name_from_an_operation() -> None:
    outer = ModuleOp([inner := ModuleOp([])])
    assert str(CleaveError(inner, "found")) == "error: builtin.module: found"
    outer.location = FileLineColLoc(StringAttr("a.mlir"), IntAttr(3), IntAttr(7))
    assert str(CleaveError(inner, "found")) == "a.mlir:3:7: error: builtin.module: found"


def test_survives_pickling() -> None:
    error = CleaveError("model.mlir:4:5", "found", "advice", op="alg.contract")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
