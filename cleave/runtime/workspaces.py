"""
Memory between the kernels of a program.

A CUDA graph may be replayed on any stream: a captured run gets memory of its own, from the graph's pool. What must be zero when a
run starts is cleared when it is allocated and left zero by the kernels; in a graph it must not come from the pool, whose memory
is shared with other graphs, and so is set aside beforehand and never given back.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from cleave.runtime.launch import Place

SPARE = 2

_of_graphs: list[torch.Tensor] = []


class Workspaces:
    """
    The workspaces of one bound program on one device, as tensors in the order of its places. `cleared` counts the captured runs for which
    no cleared memory was set aside, so that their graphs clear it.
    """

    def __init__(self, places: Sequence[Place], device: torch.device) -> None:
        self.places = tuple(places)
        self.device = device
        self.cleared = 0
        self._spare: list[tuple[torch.Tensor, ...]] = []
        self._lock = threading.Lock()
        self._refill()

    def made(self) -> tuple[torch.Tensor, ...]:
        """Workspaces for runs that follow each other on the current stream, which is not being captured."""
        found = tuple(self._made(place) for place in self.places)
        self._refill()
        return found

    def _made(self, place: Place) -> torch.Tensor:
        make = torch.zeros if place.zeroed else torch.empty
        # Later runs may be in another mode, and torch writes to a tensor of inference mode only there.
        with torch.inference_mode(False):
            return make(place.shape, dtype=place.dtype, device=self.device)

    def _refill(self) -> None:
        """Sets cleared memory aside for graphs. Clearing ends before any other stream may use it."""
        zeroed = [place for place in self.places if place.zeroed]
        if not zeroed or torch.cuda.is_current_stream_capturing():
            return
        with self._lock:
            while len(self._spare) < SPARE:
                self._spare.append(tuple(self._made(place) for place in zeroed))
        torch.cuda.current_stream(self.device).synchronize()

    def captured(self) -> tuple[torch.Tensor, ...]:
        """Workspaces for a run that is captured on the current stream."""
        with self._lock:
            cleared = list(self._spare.pop()) if self._spare else None
            self.cleared += cleared is None and any(place.zeroed for place in self.places)
        if cleared is not None:
            _of_graphs.extend(cleared)
        # Without spare memory the clearing becomes part of the graph: slower, and as right.
        return tuple(cleared.pop(0) if place.zeroed and cleared is not None else self._made(place) for place in self.places)
