"""
What each level means, executed on the CPU with numpy.

`evaluate` gives the value of a `cleave.graph.Graph`; the interpreter tables of the dialects use the same functions.
"""

from .evaluate import evaluate, evaluate_all
from .meaning import MEANING, Call, Setting, meaning
from .tensors import Named

__all__ = ["MEANING", "Call", "Named", "Setting", "evaluate", "evaluate_all", "meaning"]
