"""Launches through a made-up driver: what the kernel is given."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace

import pytest

from cleave.runtime import driver
from cleave.runtime.binary import Binary, entry_of
from cleave.runtime.driver import Cells, DriverError, Function, Launcher, addressed
from cleave.runtime.versions import tried
from tests.runtime.made_up import FakeDriver

BINARY = Binary("k", "sm_90", "k", b"", 256, 4096, 64, 0, 4, 2, 16)


def launcher(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, cells: Cells | None = None, scratch: int = 0) -> Launcher:
    monkeypatch.setattr(driver, "_library", lambda: fake)
    loaded = Function.__new__(Function)
    loaded.binary = BINARY
    loaded.handle = ctypes.c_void_p(77)
    return Launcher(loaded, 12, cells or addressed(3), [2, 0], [5, -1], 0, 9, scratch)


def test_arguments_are_addresses_scalars_and_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses are read from the cells when the kernel is launched."""
    fake, cells = FakeDriver(), addressed(3)
    one = launcher(fake, monkeypatch, cells, 0x3000)
    cells[:] = [0x1000, 0x4000, 0x2000]
    one()
    cells[2] = 0x2100
    one()
    scalars = [5, 2**64 - 1]
    assert fake.seen == [
        ((12, 1, 1), (256, 1, 1), 4096, 9, [0x2000, 0x1000, *scalars, 0x3000, 0]),
        ((12, 1, 1), (256, 1, 1), 4096, 9, [0x2100, 0x1000, *scalars, 0x3000, 0]),
    ]


def test_a_thread_without_a_context_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDriver(201)
    launcher(fake, monkeypatch)()
    assert fake.current == 1 and len(fake.seen) == 2


def test_a_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DriverError, match=r"launching k: out of something \(701\)"):
        launcher(FakeDriver(701), monkeypatch)()


def test_a_launch_passes_what_the_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    one = launcher(FakeDriver(), monkeypatch)
    with pytest.raises(AssertionError, match="passes what the kernel takes"):
        Launcher(one._loaded, 12, addressed(2), [0, 1], [5], 0, 0)


def test_torchs_launcher_is_tried_before_it_is_used() -> None:
    """Without a launch. Where there is none, or it takes other arguments, the reason is known."""
    fake = FakeDriver()
    assert tried("2.13", SimpleNamespace(_StaticCudaLauncher=fake)) == fake._launch_kernel and fake.torch == 0
    assert tried("2.13", SimpleNamespace()) == "torch 2.13 has no _StaticCudaLauncher"
    other = SimpleNamespace(_launch_kernel=lambda function, grid, kinds, arguments, stream: None)
    reason = tried("2.13", SimpleNamespace(_StaticCudaLauncher=other))
    assert isinstance(reason, str) and reason.startswith("torch 2.13: TypeError: ")


def test_limits_of_a_block() -> None:
    assert BINARY.misfit(232448, 65536) == ""
    assert "shared memory" in BINARY.misfit(4095, 65536)
    assert "registers" in BINARY.misfit(232448, 64 * 256 - 1)


def test_the_entry_is_read_from_the_text() -> None:
    text = ".visible .entry norm_kernel(\n .param .u64 a_0,\n .param .u32 a_1\n)\n.reqntid 128\n{ .entry }"
    assert entry_of(text) == ("norm_kernel", 2, 128)


def test_an_early_launch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One attribute, programmatic stream serialization (6), that is on."""
    plain = launcher(FakeDriver(), monkeypatch)
    early = Launcher(plain._loaded, 12, addressed(2), [0, 1], [5, -1], 0, 0, early=True)
    assert (plain._configuration.attributes, plain._configuration.attribute_count) == (None, 0)
    assert early._configuration.attribute_count == 1
    assert list((ctypes.c_uint * 3).from_address(early._configuration.attributes)) == [6, 0, 1]


@pytest.mark.parametrize("early", [False, True])
def test_a_launch_that_streams_says_what(monkeypatch: pytest.MonkeyPatch, early: bool) -> None:
    """An access policy window (1) from where the buffer is at each launch, as long as it or as the device allows, all of it streaming."""
    fake, cells = FakeDriver(), addressed(3)
    plain = launcher(fake, monkeypatch)
    driver.longest_window.cache_clear()
    for size, seen in ((4096, 4096), (5 << 20, 1 << 20)):
        one = Launcher(plain._loaded, 12, cells, [2, 0], [5, -1], 0, 9, 0, early, (2, size))
        for base in (0x7F0000000000, 0x7F0000100000):
            cells[2] = base
            one()
            *before, (kind, value) = fake.attributes[-1]
            assert [number for number, _ in before] == ([6] if early else [])
            assert kind == 1 and struct.unpack("<QQfii", value[:28]) == (base, seen, 1.0, 1, 0)
    assert [entry[-1][0] for entry in fake.seen] == [0x7F0000000000, 0x7F0000100000] * 2


def test_where_a_device_has_no_windows_nothing_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDriver()
    fake.window = 0
    plain = launcher(fake, monkeypatch)
    driver.longest_window.cache_clear()
    one = Launcher(plain._loaded, 12, addressed(3), [2, 0], [5, -1], 0, 9, streaming=(2, 4096))
    one()
    assert fake.attributes == [()]
    driver.longest_window.cache_clear()
