"""Analyses and rewrites of graphs that keep every value: free shifts of exponentials, their degrees, the float gate, and axes
of size 1."""

from .degrees import degrees
from .gate import Gated, gate
from .stabilize import Stabilized, stabilize, stabilized
from .unit_axes import without_unit_axes

__all__ = ["Gated", "Stabilized", "degrees", "gate", "stabilize", "stabilized", "without_unit_axes"]
