"""A made-up driver, which runs nothing and remembers what it was asked."""

from __future__ import annotations

import ctypes
from typing import Any


class _Attribute(ctypes.Structure):
    """As the driver's header has it: a number, and 64 bytes aligned for addresses."""

    _fields_ = (("kind", ctypes.c_uint), ("padding", ctypes.c_uint), ("value", ctypes.c_ubyte * 64))


class FakeDriver:
    """Records launches; `codes` are what they answer. `torch` counts those through torch's launcher, which raises `refusals` first."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.seen: list[tuple[Any, ...]] = []
        self.current = 0
        self.refusals: list[Exception] = []
        self.torch = 0
        self.window = 1 << 20
        self.attributes: list[tuple[Any, ...]] = []

    def cuLaunchKernelEx(self, configuration: Any, function: Any, arguments: Any, extra: None) -> int:
        given = configuration._obj
        pointers = arguments._obj
        values = [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]
        entries = (_Attribute * given.attribute_count).from_address(given.attributes) if given.attribute_count else ()
        self.attributes.append(tuple((entry.kind, bytes(entry.value)) for entry in entries))
        self.seen.append((tuple(given.grid), tuple(given.block), given.shared, given.stream, values))
        return self.codes.pop(0) if self.codes else 0

    def _launch_kernel(
        self, function: int, x: int, y: int, z: int, warps: int, shared: int, kinds: str, arguments: tuple[int, ...], stream: int, /
    ) -> None:
        """torch's launcher, as strict with its arguments; what it refuses it raises."""
        for number in (function, x, y, z, warps, shared, stream, *arguments):
            if type(number) is not int:
                raise TypeError(f"an integer is required (got type {type(number).__name__})")
        if type(arguments) is not tuple or len(arguments) != len(kinds):
            raise RuntimeError("Mismatch between number of argument types and provided arguments")
        for kind, number in zip(kinds, arguments, strict=True):
            if not {"O": 0 <= number < 2**64, "l": -(2**63) <= number < 2**63}[kind]:
                raise RuntimeError("Failed to convert argument")
        if x * y * z <= 0:
            return
        self.torch += 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.seen.append(((x, y, z), (32 * warps, 1, 1), shared, stream or None, [number % 2**64 for number in arguments]))

    def cuDeviceGetAttribute(self, value: Any, number: int, device: int) -> int:
        """Of attributes the longest window alone is asked for (109)."""
        if number == 109:
            value._obj.value = self.window
        return 0 if number == 109 else 1

    def cuGetErrorString(self, code: int, text: Any) -> int:
        text._obj.value = b"out of something"
        return 0

    def cuDeviceGet(self, *_: Any) -> int:
        return 0

    cuDevicePrimaryCtxRetain = cuDeviceGet

    def cuCtxSetCurrent(self, _: Any) -> int:
        self.current += 1
        return 0
