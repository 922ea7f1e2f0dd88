"""
Launching machine code through the CUDA driver, called by ctypes.

The driver's interface is the same for every version of Triton, needs no compiler at run time, and a launch whose arguments
lie ready costs little more than the driver itself. torch must have initialised CUDA on the device.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch

from cleave.runtime.binary import Binary

_MAX_DYNAMIC_SHARED = 8
_PREFER_SHARED = 1
_REGISTERS, _LOCAL_BYTES = 4, 3
_INVALID_CONTEXT = 201
_DEFAULT_SHARED = 48 << 10
_ACCESS_POLICY_WINDOW, _PROGRAMMATIC_SERIALIZATION = 1, 6
_MAX_ACCESS_POLICY_WINDOW = 109
_STREAMING = 1

Cells: TypeAlias = "ctypes.Array[ctypes.c_uint64]"


class DriverError(RuntimeError):
    """The CUDA driver refused a call."""


class _Window(ctypes.Structure):
    """CUaccessPolicyWindow: what the second-level cache does with a part, from 0 to 1, of what is read from a range, and with the rest."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_size_t),
        ("part", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
    )


class _Value(ctypes.Union):
    """CUlaunchAttributeValue."""

    _fields_ = (("number", ctypes.c_int), ("window", _Window), ("whole", ctypes.c_char * 64))


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: which it is, and its value."""

    _fields_ = (("kind", ctypes.c_uint), ("value", _Value))


class _Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


@lru_cache(maxsize=1)
def _library() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int, what: str) -> None:
    if code:
        text = ctypes.c_char_p()
        _library().cuGetErrorString(code, ctypes.byref(text))
        raise DriverError(f"{what}: {(text.value or b'unknown error').decode()} ({code})")


def _device(number: int) -> ctypes.c_int:
    """The driver's handle of a device."""
    handle = ctypes.c_int()
    _check(_library().cuDeviceGet(ctypes.byref(handle), number), "finding the device")
    return handle


def _make_current(device: int) -> None:
    """Makes the context that torch uses current in this thread, which a new thread lacks until it asks."""
    driver = _library()
    context = ctypes.c_void_p()
    _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), _device(device)), "finding the context")
    _check(driver.cuCtxSetCurrent(context), "setting the context")


@lru_cache(maxsize=64)
def longest_window(device: int) -> int:
    """
    The most bytes of which a launch may say what a device's second-level cache does with them; 0 where it has no such means.

    Raises: DriverError.
    """
    value = ctypes.c_int()
    code = _library().cuDeviceGetAttribute(ctypes.byref(value), _MAX_ACCESS_POLICY_WINDOW, _device(device))
    _check(code, "asking for the longest window of an access policy")
    return max(0, value.value)


class Function:
    """
    A kernel loaded on a device. `registers` a thread and `local` bytes a thread, which spills take, are the driver's figures.

    Raises on creation: DriverError for code that is not for the device, or that needs more shared memory than it has.
    """

    def __init__(self, binary: Binary, device: int) -> None:
        self.binary = binary
        driver = _library()
        torch.cuda.init()
        with torch.cuda.device(device):
            _make_current(device)
            self._module = ctypes.c_void_p()
            self.handle = ctypes.c_void_p()
            _check(driver.cuModuleLoadData(ctypes.byref(self._module), binary.image), f"loading {binary.name}")
            _check(driver.cuModuleGetFunction(ctypes.byref(self.handle), self._module, binary.entry.encode()), f"finding {binary.name}")
            if binary.shared > _DEFAULT_SHARED:
                code = driver.cuFuncSetAttribute(self.handle, _MAX_DYNAMIC_SHARED, binary.shared)
                _check(code, f"{binary.name} asks for {binary.shared} bytes of shared memory")
                _check(driver.cuFuncSetCacheConfig(self.handle, _PREFER_SHARED), "preferring shared memory")
            self.registers = self._attribute(_REGISTERS)
            self.local = self._attribute(_LOCAL_BYTES)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        _check(_library().cuFuncGetAttribute(ctypes.byref(value), number, self.handle), "asking for an attribute")
        return value.value


_functions: dict[tuple[Binary, int], Function] = {}
_functions_lock = threading.Lock()


def function(binary: Binary, device: int) -> Function:
    """A kernel loaded on a device, once in a process. Raises: DriverError."""
    with _functions_lock:
        key = (binary, device)
        if key not in _functions:
            _functions[key] = Function(binary, device)
        return _functions[key]


def addressed(count: int) -> Cells:
    """Memory for the addresses that launches take."""
    return (ctypes.c_uint64 * count)()


class Launcher:
    """
    A launch on one stream with everything fixed but addresses. One thread at a time may use it.

    Argument i of the kernel is what lies in `cells[slots[i]]` when it is launched; then come `scalars`, then the address of scratch
    memory. Launches may share cells, so that each address is written once for all of them. An `early` launch may begin before the launch
    before it has ended. Of what lies from `cells[streaming[0]]` on the cache evicts `streaming[1]` bytes first, or as many as the device
    allows; `aim` reads that cell. `call(*arguments)` launches and gives the driver's answer, which is for `again` where it is not 0.
    """

    def __init__(
        self,
        loaded: Function,
        programs: int,
        cells: Cells,
        slots: Sequence[int],
        scalars: Sequence[int],
        device: int,
        stream: int,
        scratch: int = 0,
        early: bool = False,
        streaming: tuple[int, int] | None = None,
    ) -> None:
        binary = loaded.binary
        assert len(slots) + len(scalars) == binary.arguments, "a launch passes what the kernel takes"
        self._device = device
        self._loaded = loaded
        # Every argument has eight bytes: the kernel reads as many as its type has, in little-endian order.
        own = [*(value & 0xFFFFFFFFFFFFFFFF for value in scalars), scratch, *[0] * binary.scratch_arguments]
        self._kept = cells, addressed(len(own))
        self._kept[1][:] = own
        start, after = (ctypes.addressof(part) for part in self._kept)
        places = [*(start + 8 * slot for slot in slots), *(after + 8 * place for place in range(len(scalars) + binary.scratch_arguments))]
        self._pointers = (ctypes.c_void_p * len(places))(*places)
        self._configuration = _Configuration()
        self._configuration.grid[:] = (programs, 1, 1)
        self._configuration.block[:] = (binary.threads, 1, 1)
        self._configuration.shared = binary.shared
        self._configuration.stream = stream
        self._attributes = (_Attribute * 2)()
        count = 0
        if early:
            self._attributes[0].kind = _PROGRAMMATIC_SERIALIZATION
            self._attributes[0].value.number = 1
            count = 1
        self._window, self._cell = None, 0
        longest = longest_window(device) if streaming is not None else 0
        if streaming is not None and longest:
            self._attributes[count].kind = _ACCESS_POLICY_WINDOW
            self._window, self._cell = self._attributes[count].value.window, streaming[0]
            self._window.size, self._window.part, self._window.hit = min(streaming[1], longest), 1.0, _STREAMING
            count += 1
        if count:
            self._configuration.attributes = ctypes.addressof(self._attributes)
            self._configuration.attribute_count = count
        self.arguments = (ctypes.byref(self._configuration), loaded.handle, ctypes.byref(self._pointers), None)
        self.call: Callable[..., int] = _library().cuLaunchKernelEx

    def __call__(self, tensors: Sequence[torch.Tensor] = ()) -> None:
        """Launches with what the cells hold; the tensors that a step is given are not looked at. Raises: DriverError."""
        self.aim()
        code = self.call(*self.arguments)
        if code:
            self.again(code)

    def aim(self) -> None:
        """Tells the next launch where what streams begins."""
        if self._window is not None:
            self._window.base = self._kept[0][self._cell]

    def enter(self) -> None:
        """Makes the context of the device current in this thread."""
        _make_current(self._device)

    def again(self, code: int) -> None:
        """What to do when the driver answers with an error: launches again in a thread that had no context. Raises: DriverError."""
        if code == _INVALID_CONTEXT:
            self.enter()
            code = self.call(*self.arguments)
        if code:
            _check(code, f"launching {self._loaded.binary.name}")
