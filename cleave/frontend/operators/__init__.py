"""
What each PyTorch operator means in the algebra, one module a family; `lower` finds the function for an operator.

Composite operators (linear, softmax, the norms, scaled_dot_product_attention) are written out here as a person would write
them, so that the search sees the algebra and not the composite.
"""

from . import activations, contractions, creation, elementwise, indexing, losses, norms, reductions, sdpa, shapes
from .table import Result, lower

__all__ = [
    "Result",
    "activations",
    "contractions",
    "creation",
    "elementwise",
    "indexing",
    "losses",
    "lower",
    "norms",
    "reductions",
    "sdpa",
    "shapes",
]
