"""
PyTorch functions and modules as graphs of the algebra.

`capture` traces a function with torch.export and turns its positional dimensions into named axes; see `capture` for how.
"""

from .bindings import Bindings
from .capture import Captured, capture

__all__ = ["Bindings", "Captured", "capture"]
