"""
The process that runs kernels under Triton's CPU interpreter: started by `cleave.runtime.interpreter`, which sets
TRITON_INTERPRET before this process imports Triton, and speaks to it over a connection whose descriptor is the argument.
"""

from __future__ import annotations

import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from cleave.runtime.generated import load_module, reason
from cleave.runtime.launch import bind
from cleave.runtime.versions import prepare_interpreter


def answer(request: tuple[Any, ...]) -> list[NDArray[Any]]:
    """Runs `("plan", plan, source, kernels, arrays, symbols)` or `("launch", source, arrays, symbols)`."""
    if request[0] == "plan":
        _, plan, source, kernels, arrays, symbols = request
        tensors = [torch.as_tensor(array) for array in arrays]
        results = bind(plan, source, kernels, tensors, symbols)(*tensors)
    else:
        _, source, arrays, symbols = request
        returned: Any = load_module(source).launch(*(torch.as_tensor(array) for array in arrays), **symbols)
        results = cast(tuple[torch.Tensor, ...], returned if isinstance(returned, tuple) else (returned,))
    return [result.numpy() for result in results]


def main() -> None:
    """Answers requests until the other end closes: `(True, arrays)`, or `(False, error or what failed in a line, traceback)`."""
    torch.set_num_threads(1)
    prepare_interpreter()
    with Connection(int(sys.argv[1])) as connection:
        while True:
            try:
                request = connection.recv()
            except (EOFError, ConnectionResetError):
                return
            try:
                with np.errstate(all="ignore"):
                    reply: tuple[Any, ...] = (True, answer(request))
            except Exception as error:
                reply = (False, error if type(error).__module__.startswith("cleave") else reason(error), traceback.format_exc())
            connection.send(reply)


if __name__ == "__main__":
    main()
