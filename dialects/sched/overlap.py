"""How one launch overlaps with the next: `sched.wait` and `sched.release`."""

from __future__ import annotations

from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def
from xdsl.traits import HasParent, MemoryReadEffect, MemoryWriteEffect

from cleave.dialects.sched.kernel import KernelOp


@irdl_op_definition
class WaitOp(IRDLOperation):
    """
    Waits until the launches before have ended; what follows sees what they stored. Without effect in a launch that is not early.

    It stands in the kernel's body itself, where every program comes; one of a persistent kernel waits before its first tile.
    """

    name = "sched.wait"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), HasParent(KernelOp))


@irdl_op_definition
class ReleaseOp(IRDLOperation):
    """Lets an early launch that follows begin, once every program of this one came here or ended."""

    name = "sched.release"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryWriteEffect(), HasParent(KernelOp))
