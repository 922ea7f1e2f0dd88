"""From graphs to tile programs: roles, tiles, partition and cost. Knows no IR."""

from .chunks import split_symbols
from .scheduler import ScheduleOptions, schedule
from .targets import TARGETS, Target, target

__all__ = ["TARGETS", "ScheduleOptions", "Target", "schedule", "split_symbols", "target"]
