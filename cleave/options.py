"""What can be asked of `cleave.compile` beside what to compile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .runtime import tuner


@dataclass(frozen=True, slots=True)
class Options:
    """
    Knobs of `compile`. `split`: also consider programs that split a reduced axis over several programs of the grid.
    `alternatives`: how many programs of the algebra compete. `seed` of the search. `tune`: time candidates on the GPU; auto where the
    example is on one. `cache`: keep results on disk and use them. `budget`: seconds that choosing among candidates may take, and
    `candidates`: how many are compiled. `prepare`: what depends on the named weights alone is computed once (`Compiled.prepare`).
    """

    split: bool = True
    alternatives: int = 12
    seed: int = 0
    tune: bool | Literal["auto"] = "auto"
    cache: bool = True
    budget: float = tuner.Budget().seconds
    candidates: int = tuner.Budget().candidates
    prepare: bool = True

    def __post_init__(self) -> None:
        for name, kinds, least in (
            ("split", bool, 0),
            ("alternatives", int, 0),
            ("seed", int, 0),
            ("cache", bool, 0),
            ("budget", (int, float), 0),
            ("candidates", int, 1),
            ("prepare", bool, 0),
        ):
            value = getattr(self, name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool) or not value >= least:
                wanted = "True or False" if kinds is bool else f"a number of at least {least}"
                raise ValueError(f"compile() option {name} is {value!r}; give {wanted}")
        if self.tune not in (True, False, "auto"):
            raise ValueError(f"compile() option tune is {self.tune!r}; give True, False or 'auto'")
