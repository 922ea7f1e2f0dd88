"""A clock that needs no GPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from cleave.bench.cases import Call
from cleave.bench.timing import Replay


@dataclass
class ToldClock:
    """`milliseconds` by contender, 1 where it is not told; a tenth more where the flush is by writes."""

    milliseconds: Mapping[str, float] = field(default_factory=dict)

    def captured(self, call: Call) -> Replay:
        """Runs into the same memory again, as a graph does."""
        result = call()
        return Replay(lambda: result.copy_(call()), result)

    def interleaved(self, calls: Mapping[str, Callable[[], object]], flush: str, existing: Collection[str] = ()) -> dict[str, float]:
        return {name: self.milliseconds.get(name, 1.0) * (1.1 if flush == "writes" else 1.0) for name in calls}

    def processor(self, call: Call) -> float:
        call()
        return 5.0

    def settle(self) -> None: ...
