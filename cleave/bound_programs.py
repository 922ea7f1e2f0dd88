"""
The bound programs of a compiled function, one for each combination of shapes, strides and device that it was called with.

Each has memory on its device for every stream it ran on, so only those used last are kept. A run that follows on the stream may take
that memory; a captured CUDA graph has workspaces of its own (`cleave.runtime.workspaces`) and stays valid without its bound program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable
from threading import Lock

from .recent import Recent
from .runtime.cuda import CudaBound
from .runtime.launch import Bound

BOUNDS = 64
"""How many bound programs a compiled function keeps."""


class BoundPrograms:
    """The bound programs used last, and what all there were have counted. Threads may use it at once."""

    def __init__(self, most: int = BOUNDS) -> None:
        self._recent: Recent[Hashable, Bound] = Recent(most)
        self._lock = Lock()
        self._copies = 0
        self._cleared = 0
        self._refused: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._recent)

    def get(self, key: Hashable, make: Callable[[], Bound], held: Collection[object] = ()) -> Bound:
        """The bound program of a key, made where there is none; those in `held` are not let go for it, as calls run them unasked."""
        found = self._recent.get(key)
        if found is None:
            found = make()
            self.put(key, found, held)
        return found

    def put(self, key: Hashable, bound: Bound, held: Collection[object] = ()) -> None:
        """Keeps a bound program; arguments as for `get`."""
        for gone in self._recent.put(key, bound, lambda other: any(other is one for one in held)):
            with self._lock:
                self._copies += gone.copies
                self._cleared += _cleared(gone)
                self._refused += _refused(gone)
            if isinstance(gone, CudaBound):
                gone.release()

    @property
    def let_go(self) -> int:
        """How many were let go for others."""
        return self._recent.let_go

    @property
    def copies(self) -> int:
        """How many inputs calls had to copy."""
        return self._copies + sum(bound.copies for bound in self._recent.values())

    @property
    def cleared(self) -> int:
        """How many captured runs clear workspaces in their graph."""
        return self._cleared + sum(map(_cleared, self._recent.values()))

    @property
    def refused(self) -> Counter[str]:
        """How many launches torch's launcher refused, by what it said."""
        return sum(map(_refused, self._recent.values()), Counter(self._refused))


def _cleared(bound: Bound) -> int:
    return bound.cleared if isinstance(bound, CudaBound) else 0


def _refused(bound: Bound) -> Counter[str]:
    return bound.refused if isinstance(bound, CudaBound) else Counter()
