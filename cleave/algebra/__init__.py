"""Analyses and rewrites of graphs that keep every value: free shifts of exponentials, their degrees, and the float gate."""

from .degrees import degrees, shift_terms

__all__ = ["degrees", "shift_terms"]
