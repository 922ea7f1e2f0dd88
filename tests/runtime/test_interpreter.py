"""The worker process: errors come back, it survives them, and a dead one is replaced."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from cleave.errors import CleaveError
from cleave.runtime.execute import execute
from cleave.runtime.interpreter import Interpreter, InterpreterError
from tests.tile_programs import CASES

HEADER = "import os\nimport torch\n"


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    return Interpreter()


def test_errors_come_back_and_the_worker_lives_on(interpreter: Interpreter) -> None:
    with pytest.raises(InterpreterError) as failed:
        interpreter.launch(HEADER + "def launch(x):\n    return x / (1 // 0)\n", [np.ones(3)])
    assert str(failed.value).endswith(" by zero (in launch: return x / (1 // 0))")
    assert "Traceback (most recent call last)" in failed.value.__notes__[0]
    (pid,) = interpreter.launch(HEADER + "def launch():\n    return torch.tensor(os.getpid())\n", [])
    (again,) = interpreter.launch(HEADER + "def launch():\n    return torch.tensor(os.getpid())\n", [])
    assert pid == again


def test_a_dead_worker_is_replaced(interpreter: Interpreter) -> None:
    with pytest.raises(InterpreterError, match="ended with code 3"):
        interpreter.launch(HEADER + "def launch():\n    os._exit(3)\n", [])
    (x,) = interpreter.launch(HEADER + "def launch(x):\n    return x + 1\n", [np.ones(2, np.float32)])
    np.testing.assert_array_equal(x, [2, 2])
    interpreter.close()
    (x,) = interpreter.launch(HEADER + "def launch(x):\n    return x + 1\n", [np.ones(2, np.float32)])
    np.testing.assert_array_equal(x, [2, 2])
    interpreter.close()


def test_inputs_that_do_not_fit_are_refused() -> None:
    """The mistake is the caller's: which input, what it is, what was expected."""
    program = CASES["matmul"].program()
    with pytest.raises(CleaveError, match=r"input 'b' has shape \(4, 5\); layout 'k n' makes it \(3, 5\)"):
        execute(program, [np.ones((2, 3)), np.ones((4, 5))])
    with pytest.raises(CleaveError, match="takes 2 inputs; 1 are given"):
        execute(program, [np.ones((2, 3))])
    with pytest.raises(CleaveError, match="has 1 dimensions; its layout is 'm k'"):
        execute(program, [np.ones(2), np.ones((4, 5))])


def test_an_empty_axis_launches_nothing() -> None:
    """No program of the grid runs; a loop over nothing leaves the accumulator."""
    (result,) = execute(CASES["matmul"].program(), [np.ones((0, 3)), np.ones((3, 5))])
    assert result.shape == (0, 5)
    (result,) = execute(CASES["matmul"].program(), [np.ones((2, 0)), np.ones((0, 5))])
    np.testing.assert_array_equal(result, np.zeros((2, 5)))


def test_an_interrupted_call_leaves_no_answer_behind(interpreter: Interpreter) -> None:
    """The answer to a call that was given up must not be taken for the next one's."""
    interpreter.launch(HEADER + "def launch():\n    return torch.zeros(1)\n", [])
    slow = HEADER + "import time\ndef launch():\n    time.sleep(60)\n    return torch.zeros(1)\n"
    # Processes in the background of a script ignore interrupts, and Python leaves it so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            interpreter.launch(slow, [])
    finally:
        signal.signal(signal.SIGINT, before)
    (one,) = interpreter.launch(HEADER + "def launch():\n    return torch.ones(1)\n", [])
    np.testing.assert_array_equal(one, [1])
    interpreter.close()


def test_a_process_that_is_forked_while_the_worker_is_busy_does_not_wait_for_it(interpreter: Interpreter) -> None:
    """Nor does its end, or that it goes on, matter to the other."""
    source = HEADER + "import time\ndef launch():\n    time.sleep(1)\n    return torch.tensor(os.getpid())\n"
    quick = HEADER + "def launch():\n    return torch.tensor(os.getpid())\n"
    (ours,) = interpreter.launch(quick, [])
    found: list[int] = []
    busy = threading.Thread(target=lambda: found.extend(int(each) for each in interpreter.launch(source, [])))
    busy.start()
    while not interpreter._lock.locked():
        time.sleep(0.01)
    told, tells = os.pipe()
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os.close(go)
        try:
            (theirs,) = interpreter.launch(quick, [])
            interpreter.close()
            os.write(tells, str(int(theirs)).encode())
            os.close(tells)
            os.read(wait, 1)
        finally:
            os._exit(0)
    os.close(tells)
    try:
        with os.fdopen(told) as pipe:
            theirs = pipe.read()
        assert theirs and int(theirs) != int(ours)
        busy.join()
        assert found == [int(ours)]
        began = time.monotonic()
        interpreter.close()
        assert time.monotonic() - began < 3, "the worker sees that its connection was closed"
    finally:
        os.close(go)
        os.close(wait)
        os.waitpid(child, 0)


def test_a_forked_process_has_a_worker_of_its_own(interpreter: Interpreter) -> None:
    """Two processes on one connection would read each other's answers."""
    source = HEADER + "def launch():\n    return torch.tensor(os.getpid())\n"
    (ours,) = interpreter.launch(source, [])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            (theirs,) = interpreter.launch(source, [])
            os.write(write, str(int(theirs)).encode())
            interpreter.close()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    assert theirs and int(theirs) != int(ours)
    (again,) = interpreter.launch(source, [])
    assert again == ours
    interpreter.close()
