"""From graphs to tile programs: roles, tiles, partition and cost. Knows no IR."""

from .candidates import Space, Trial, space
from .chunks import split_symbols
from .kernels import ScheduleOptions
from .prediction import Prediction
from .scheduler import schedule
from .targets import TARGETS, Target, target

__all__ = [
    "TARGETS",
    "Prediction",
    "ScheduleOptions",
    "Space",
    "Target",
    "Trial",
    "schedule",
    "space",
    "split_symbols",
    "target",
]
