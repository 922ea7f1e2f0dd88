"""A made-up driver, which runs nothing and remembers what it was asked."""

from __future__ import annotations

import ctypes
from typing import Any


class FakeDriver:
    """Records launches; `codes` are what they answer."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.seen: list[tuple[Any, ...]] = []
        self.current = 0

    def cuLaunchKernelEx(self, configuration: Any, function: Any, arguments: Any, extra: None) -> int:
        given = configuration._obj
        pointers = arguments._obj
        values = [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]
        self.seen.append((tuple(given.grid), tuple(given.block), given.shared, given.stream, values))
        return self.codes.pop(0) if self.codes else 0

    def cuGetErrorString(self, code: int, text: Any) -> int:
        text._obj.value = b"out of something"
        return 0

    def cuDeviceGet(self, *_: Any) -> int:
        return 0

    cuDevicePrimaryCtxRetain = cuDeviceGet

    def cuCtxSetCurrent(self, _: Any) -> int:
        self.current += 1
        return 0
