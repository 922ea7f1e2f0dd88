"""From graphs to tile programs: roles, tiles, partition and cost. Knows no IR."""

from .chunks import split_symbols
from .kernels import ScheduleOptions
from .scheduler import schedule
from .targets import TARGETS, Target, target

__all__ = ["TARGETS", "ScheduleOptions", "Target", "schedule", "split_symbols", "target"]
