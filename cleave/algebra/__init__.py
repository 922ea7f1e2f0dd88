"""Analyses and rewrites of graphs that keep every value: free shifts of exponentials, their degrees, and the float gate."""

from .degrees import degrees, shift_terms
from .gate import Gated, gate
from .stabilize import Stabilized, stabilize, stabilized

__all__ = ["Gated", "Stabilized", "degrees", "gate", "shift_terms", "stabilize", "stabilized"]
