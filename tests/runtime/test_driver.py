"""Launches through a made-up driver: what the kernel is given."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from cleave.runtime import driver
from cleave.runtime.binary import Binary, entry_of
from cleave.runtime.driver import DriverError, Function, Launcher

BINARY = Binary("k", "sm_90", "k", b"", 256, 4096, 64, 0, 4, 2, 16)


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


def launcher(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setattr(driver, "_library", lambda: fake)
    loaded = Function.__new__(Function)
    loaded.binary = BINARY
    loaded.handle = ctypes.c_void_p(77)
    return Launcher(loaded, 12, 2, [5, -1], 0)


def test_arguments_are_addresses_scalars_and_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDriver()
    one = launcher(fake, monkeypatch)
    one.values[0], one.values[1], one.values[one.scratch_place] = 0x1000, 0x2000, 0x3000
    one.launch(9)
    one.values[0] = 0x1100
    one.launch(0)
    scalars = [5, 2**64 - 1]
    assert fake.seen == [
        ((12, 1, 1), (256, 1, 1), 4096, 9, [0x1000, 0x2000, *scalars, 0x3000, 0]),
        ((12, 1, 1), (256, 1, 1), 4096, None, [0x1100, 0x2000, *scalars, 0x3000, 0]),
    ]


def test_a_thread_without_a_context_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDriver(201)
    launcher(fake, monkeypatch).launch(1)
    assert fake.current == 1 and len(fake.seen) == 2


def test_a_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DriverError, match=r"launching k: out of something \(701\)"):
        launcher(FakeDriver(701), monkeypatch).launch(1)


def test_a_launch_passes_what_the_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    one = launcher(FakeDriver(), monkeypatch)
    with pytest.raises(AssertionError, match="passes what the kernel takes"):
        Launcher(one._loaded, 12, 2, [5], 0)


def test_limits_of_a_block() -> None:
    assert BINARY.misfit(232448, 65536) == ""
    assert "shared memory" in BINARY.misfit(4095, 65536)
    assert "registers" in BINARY.misfit(232448, 64 * 256 - 1)


def test_the_entry_is_read_from_the_text() -> None:
    text = ".visible .entry norm_kernel(\n .param .u64 a_0,\n .param .u32 a_1\n)\n.reqntid 128\n{ .entry }"
    assert entry_of(text) == ("norm_kernel", 2, 128)
