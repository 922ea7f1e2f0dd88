"""What a search may spend, and how it draws."""

from __future__ import annotations

from dataclasses import dataclass

from .verify import Round

SEARCH_ROUND = Round(points=2, chunks=2, counting=False)
"""Two points an axis tell values apart; more only cost time."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """
    What a search may spend. Caps on work (`classes`, `applications` of the rules, `steps` of extraction, and so
    many `each` more for every operation of the program) keep it deterministic and small
    programs within about two seconds; the caps on seconds are for emergencies.

    `extra_ops`: an alternative may have so many operations more than the program as written. `cost_factor`: and cost so many
    times as much, at the hinted sizes or at those where it is the best (`regimes`). `phase_weight`: the share of the cost by which
    one more dependent reduction counts in the ranking. `hoist`: work on weights alone counts as done at load time. `split`: also
    give, for every axis that all outputs reduce over and that some hint makes at least `split_at_least` long, `split_each`
    alternatives with that axis in chunks; where `split_at_once` is 2, also one for each of the first `split_pairs` pairs of such
    axes. `piece`: programs of more operations are searched in pieces (`segments`). `wide`: programs
    of at most so many operations may store what is no larger than their largest tensor at any of the sizes that are looked at,
    larger ones only what is so at the hinted sizes.
    """

    extra_ops: int = 24
    cost_factor: float = 2.0
    phase_weight: float = 0.05
    classes: int = 260
    applications: int = 40000
    steps: int = 120000
    classes_each: int = 4
    steps_each: int = 5000
    seconds: float = 60.0
    alternatives: int = 12
    keep: int = 4
    seed: int = 0
    hoist: bool = False
    split: bool = True
    split_at_least: int = 256
    split_each: int = 2
    split_at_once: int = 2
    split_pairs: int = 3
    piece: int = 64
    wide: int = 48
