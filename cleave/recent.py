"""A mapping that keeps what was used last, so that what is made for every new size does not grow for ever."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """At most `most` values; `let_go` counts those that were let go for others. Threads may use it at once."""

    def __init__(self, most: int) -> None:
        assert most > 0, "what was put in last is kept"
        self.most = most
        self.let_go = 0
        self._values: dict[Key, Value] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[Value]:
        """What is kept, the one used longest ago first."""
        with self._lock:
            return list(self._values.values())

    def get(self, key: Key) -> Value | None:
        """The value of a key, which is then used last; None where it is not kept."""
        with self._lock:
            if key not in self._values:
                return None
            found = self._values[key] = self._values.pop(key)
            return found

    def put(self, key: Key, value: Value, held: Callable[[Value], bool] | None = None) -> list[Value]:
        """
        Keeps a value. What is replaced or let go for it is given back: those used longest ago of all that are not `held`, beside the new
        one. More stay than `most` only where so many are held.
        """
        with self._lock:
            out = [self._values.pop(key)] if key in self._values else []
            free = [other for other, known in self._values.items() if held is None or not held(known)]
            for other in free[: max(0, len(self._values) + 1 - self.most)]:
                out.append(self._values.pop(other))
                self.let_go += 1
            self._values[key] = value
            return out
