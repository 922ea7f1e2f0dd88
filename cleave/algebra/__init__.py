"""Analyses and rewrites of graphs that keep every value: free shifts of exponentials, their degrees, and the float gate."""

from .degrees import degrees, shift_terms
from .stabilize import Stabilized, stabilize, stabilized

__all__ = ["Stabilized", "degrees", "shift_terms", "stabilize", "stabilized"]
