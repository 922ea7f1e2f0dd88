"""Which machine a GPU is: by its whole name and capability, never one whose limits it has not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import cleave
from cleave import CleaveError, api, machines
from cleave.choosing import Machine
from cleave.machines import machine_for, target_of
from cleave.remarks import collected, remark
from cleave.schedule import TARGETS, Target

# Name, capability, multiprocessors, bytes of shared memory a block may use, and the target that it is.
KNOWN: tuple[tuple[str, str, int, int, str], ...] = (
    ("NVIDIA A100-SXM4-80GB", "80", 108, 166912, "a100"),
    ("A100-PCIE-40GB", "80", 108, 166912, "a100"),
    ("NVIDIA H100 80GB HBM3", "90", 132, 232448, "h100"),
    ("NVIDIA H200", "90", 132, 232448, "h200"),
    ("NVIDIA H200 NVL", "90", 132, 232448, "h200"),
    ("NVIDIA B200", "100", 148, 232448, "b200"),
    ("NVIDIA GeForce RTX 4090", "89", 128, 101376, "rtx4090"),
    ("AMD Instinct MI300X", "gfx942", 304, 65536, "mi300x"),
)
# The same, and the target that is most like it.
OTHERS: tuple[tuple[str, str, int, int, str], ...] = (
    ("Tesla V100-SXM2-16GB", "70", 80, 98304, "rtx4090"),
    ("Tesla T4", "75", 40, 65536, "rtx4090"),
    ("NVIDIA RTX A1000", "86", 16, 101376, "rtx4090"),
    ("NVIDIA A10", "86", 72, 101376, "rtx4090"),
    ("NVIDIA GeForce RTX 3090", "86", 82, 101376, "rtx4090"),
    ("NVIDIA A30", "80", 56, 166912, "a100"),
    ("NVIDIA L40S", "89", 142, 101376, "rtx4090"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", "89", 76, 101376, "rtx4090"),
    ("NVIDIA H100 PCIe", "90", 114, 232448, "h100"),
    ("NVIDIA H200 MIG 1g.18gb", "90", 16, 232448, "h200"),
    ("NVIDIA GH200 480GB", "90", 132, 232448, "h100"),
    ("NVIDIA GB200", "100", 152, 232448, "b200"),
    ("NVIDIA B300", "103", 148, 232448, "b200"),
    ("NVIDIA GeForce RTX 5090", "120", 170, 101376, "rtx4090"),
    ("AMD Instinct MI250X", "gfx90a", 110, 65536, "mi300x"),
    ("AMD Instinct MI325X", "gfx942", 304, 65536, "mi300x"),
    ("AMD Radeon RX 7900 XTX", "gfx1100", 96, 65536, "mi300x"),
)


def present(monkeypatch: pytest.MonkeyPatch, name: str, capability: str, multiprocessors: int, shared: int | None) -> torch.device:
    """The device of a made-up GPU, described as torch does."""
    amd = capability.startswith("gfx")
    found: dict[str, Any] = {
        "name": name,
        "multi_processor_count": multiprocessors,
        "L2_cache_size": 5 << 20,
        "warp_size": 64 if amd else 32,
    }
    if amd:
        found["gcnArchName"] = f"{capability}:sramecc+:xnack-"
    else:
        found |= {"major": int(capability[:-1]), "minor": int(capability[-1])}
        found |= {} if shared is None else {"shared_memory_per_block_optin": shared}
    monkeypatch.setattr(torch.version, "hip", "7.0" if amd else None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(**found))
    monkeypatch.setattr(machines, "machine_of", lambda name, known, device, tune: Machine(TARGETS[name], "", None, f"{name} here"))
    return torch.device("cuda")


@pytest.mark.parametrize("gpu", KNOWN, ids=lambda gpu: gpu[0])
def test_a_known_gpu_is_its_target(monkeypatch: pytest.MonkeyPatch, gpu: tuple[str, str, int, int, str]) -> None:
    *_, name = gpu
    with collected() as remarks:
        machine = machine_for("auto", present(monkeypatch, *gpu[:4]), "auto")
    assert machine.target is TARGETS[name] and machine.setting == f"{name} here" and not remarks


@pytest.mark.parametrize("gpu", OTHERS, ids=lambda gpu: gpu[0])
def test_another_gpu_has_its_own_limits(monkeypatch: pytest.MonkeyPatch, gpu: tuple[str, str, int, int, str]) -> None:
    name, capability, multiprocessors, shared, expected = gpu
    device = present(monkeypatch, name, capability, multiprocessors, shared)
    like, target = target_of(device)
    assert like.name == expected and target.name == name
    assert (target.multiprocessors, target.shared, target.l2, target.registers) == (multiprocessors, shared, 5 << 20, like.registers)
    assert target.dot_rate / multiprocessors == pytest.approx(like.dot_rate / like.multiprocessors) and target.launch == like.launch
    amd = capability.startswith("gfx")
    assert target.capability == ("hip", capability, 64) if amd else target.capability == ("cuda", capability, 32)
    facts = target.publishes, target.streams, target.overlaps
    assert facts == ((False, False, False) if amd else (True, int(capability) >= 80, int(capability) >= 90))
    with collected() as remarks:
        machine = machine_for("auto", device, "auto")
    (told,) = remarks
    assert machine.target == target and told.startswith(f"{name} is planned for with its own {multiprocessors} ") and expected in told
    assert machine.setting not in {f"{known} here" for known in TARGETS}, "times of another machine are not taken"


@pytest.mark.parametrize("gpu", (*KNOWN, *OTHERS), ids=lambda gpu: gpu[0])
def test_no_limit_is_above_the_devices(monkeypatch: pytest.MonkeyPatch, gpu: tuple[str, str, int, int, str]) -> None:
    """Also of a GPU that is named as one it is not: one of its name with less memory, or of another capability."""
    name, capability, multiprocessors, shared, _ = gpu
    for less in (shared, shared // 2):
        device = present(monkeypatch, name, capability, multiprocessors, less)
        target: Target = target_of(device)[1]
        assert target.shared <= (shared if capability.startswith("gfx") else less) and target.multiprocessors == multiprocessors
    if not capability.startswith("gfx"):
        older = target_of(present(monkeypatch, name, "75", multiprocessors, shared))[1]
        assert older.capability[1] == "75" and not older.streams


def test_limits_that_torch_does_not_tell_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    device = present(monkeypatch, "NVIDIA L40S", "89", 142, None)
    with pytest.raises(CleaveError, match=r"how much shared memory a block of NVIDIA L40S may use; name a machine .*target="):
        machine_for("auto", device, "auto")
    assert machine_for("rtx4090", device, "auto").target is TARGETS["rtx4090"]


def test_an_unknown_target_is_named() -> None:
    with pytest.raises(ValueError, match="unknown target 'h300'; known are auto, a100, "):
        cleave.compile(lambda x: x * 2, torch.ones(3), target="h300")


def test_the_report_names_the_target_and_what_was_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the result comes from the cache."""
    x = torch.ones(7, 3)
    assert "\ntarget: h200\n" in str(cleave.compile(torch.exp, x).report())
    assert "\ntarget: a100\n" in str(cleave.compile(torch.exp, x, target="a100").report())

    def estimated(name: str, device: torch.device, tune: object) -> Machine:
        remark("somewhat like another")
        return Machine(TARGETS["b200"], "", None, "b200 somewhat")

    monkeypatch.setattr(api, "machine_for", estimated)
    for cached in (False, True):
        report = cleave.compile(torch.exp, x).report()
        assert report.cached is cached and report.target == "b200" and report.remarks[0] == "somewhat like another"
