"""
Which machine to compile for: one of the known targets, or what a GPU says of itself.

A GPU that a target is named after, with as many multiprocessors, is that target. Any other has limits of its own, which what is planned
must keep within, and rates that are only estimates: those of the target most like it, in proportion to the multiprocessors.

    NVIDIA H200, 132 multiprocessors              ->    h200
    NVIDIA H200 MIG 1g.18gb, 16 multiprocessors   ->    an eighth of an h200
    NVIDIA L40S                                   ->    more of an rtx4090
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, cast

import torch

from .choosing import Machine, machine_of
from .errors import CleaveError
from .remarks import remark
from .schedule import TARGETS, Target

WITHOUT_GPU = "h200"
AMD_SHARED = 65536
"""Bytes of shared memory of a block on AMD, of which torch says nothing; newer GPUs have more."""

_RATES = ("bandwidth", "l2_bandwidth", "dot_rate", "dot32_rate", "exp_rate", "alu_rate")


def machine_for(name: str, device: torch.device, tune: bool | Literal["auto"]) -> Machine:
    """
    The machine of a target, or for auto of the device of example tensors; h200 on the CPU. What is estimated of a GPU is remarked.

    Raises: ValueError for an unknown name; CleaveError for a GPU that does not say what its limits are, and as `machine_of`.
    """
    if name != "auto":
        if name not in TARGETS:
            raise ValueError(f"unknown target '{name}'; known are auto, {', '.join(TARGETS)}")
        return machine_of(name, True, device, tune)
    if device.type != "cuda":
        return machine_of(WITHOUT_GPU, False, device, tune)
    like, target = target_of(device)
    machine = machine_of(like.name, False, device, tune)
    if target is like:
        return machine
    remark(
        f"{target.name} is planned for with its own {target.multiprocessors} multiprocessors and {target.shared} bytes of shared memory, "
        f"and rates estimated from {like.name}; target= names another machine"
    )
    return replace(machine, target=target, setting=f"{machine.setting} as {target}")


def target_of(device: torch.device) -> tuple[Target, Target]:
    """The known target that a GPU is or is most like, and the GPU's own, which is the same where it is that. Raises: CleaveError."""
    properties = cast(Any, torch.cuda).get_device_properties(device)
    capability, shared = _capability(properties), _shared(properties)
    like = _named(properties.name, capability) or _nearest(capability, shared)
    count = properties.multi_processor_count
    if like.name in _words(properties.name) and like.capability == capability and like.multiprocessors == count and like.shared <= shared:
        return like, like
    rates = {rate: getattr(like, rate) * count / like.multiprocessors for rate in _RATES}
    limits = {"multiprocessors": count, "shared": shared, "l2": properties.L2_cache_size}
    return like, replace(like, name=properties.name, capability=capability, **limits, **rates)


def _capability(properties: Any) -> tuple[str, str, int]:
    if torch.version.hip is not None:
        return "hip", properties.gcnArchName.partition(":")[0], properties.warp_size
    return "cuda", f"{properties.major}{properties.minor}", properties.warp_size


def _shared(properties: Any) -> int:
    """Bytes of shared memory that a block may use."""
    found = AMD_SHARED if torch.version.hip is not None else getattr(properties, "shared_memory_per_block_optin", None)
    if not isinstance(found, int):
        found = f"torch does not say how much shared memory a block of {properties.name} may use"
        raise CleaveError(None, found, f"name a machine that has no more, as target='rtx4090'; known are {', '.join(TARGETS)}")
    return found


def _words(name: str) -> set[str]:
    """The words of a device's name, and each two that follow one another as one."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return {*words, *(first + second for first, second in pairwise(words))}


def _named(name: str, capability: tuple[str, str, int]) -> Target | None:
    words = _words(name)
    return next((target for target in TARGETS.values() if target.name in words and target.capability == capability), None)


def _nearest(capability: tuple[str, str, int], shared: int) -> Target:
    """The target of the same maker with the nearest shared memory, of these with the nearest capability."""

    def distance(target: Target) -> tuple[int, int]:
        apart = abs(int(target.capability[1]) - int(capability[1])) if capability[0] == "cuda" else 0
        return abs(target.shared - shared), apart

    return min((target for target in TARGETS.values() if target.capability[0] == capability[0]), key=distance)
