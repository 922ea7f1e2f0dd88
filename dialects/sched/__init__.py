"""
Scheduled tile programs: how a graph is computed.

Decided at this level: which kernels there are, their grids, loops and tile sizes, what each loop carries, where memory is
read and written, and the host steps that launch kernels. Left open: how a tile's dimensions lie in registers, addresses,
strides and masks. Those follow from the names: a tile keeps the names of its dimensions, elementwise operations broadcast
by name, and a memory access gives the index of every axis of the buffer as a tile or a scalar:

    %x = sched.load %k [b = %b, n = %n, d = %d] check [n < %n_size] other 0.0 : !sched.tile<[n = 64, d = 128], f16>

reads 64 x 128 elements; lanes with n not below `%n_size` are not read and give 0. The extents are values: a dynamic axis
is an argument of the kernel. A scalar is a tile without dimensions.

`cleave.schedule.program` has the same programs as plain values.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from cleave.dialects.sched.elementwise import (
    AbsOp,
    AddOp,
    AndOp,
    BinaryOp,
    BitBinaryOp,
    BroadcastOp,
    CastOp,
    CompareOp,
    ConstantOp,
    CosOp,
    DivOp,
    ElementwiseOp,
    ErfcOp,
    ErfOp,
    Exp2Op,
    Expm1Op,
    ExpOp,
    FloatBinaryOp,
    FloatUnaryOp,
    FloordivOp,
    GeluOp,
    GeluTanhOp,
    Log1pOp,
    Log2Op,
    LogOp,
    MaxOp,
    MinOp,
    ModOp,
    MulOp,
    NegOp,
    NotOp,
    NumberBinaryOp,
    NumberUnaryOp,
    OrOp,
    PowOp,
    ReluOp,
    RsqrtOp,
    SelectOp,
    SigmoidOp,
    SiluOp,
    SinOp,
    SqrtOp,
    SubOp,
    TanhOp,
    UnaryOp,
)
from cleave.dialects.sched.flow import (
    ForOp,
    IfOp,
    YieldOp,
)
from cleave.dialects.sched.functions import address_type
from cleave.dialects.sched.host import (
    LIBRARY_CALLEES,
    AllocateOp,
    LibraryCallOp,
    ProgramOp,
)
from cleave.dialects.sched.kernel import (
    KernelOp,
)
from cleave.dialects.sched.last import (
    LastOp,
)
from cleave.dialects.sched.launches import LaunchFuncOp, LaunchOp
from cleave.dialects.sched.memory import (
    AccessOp,
    LoadOp,
    StoreOp,
)
from cleave.dialects.sched.overlap import (
    ReleaseOp,
    WaitOp,
)
from cleave.dialects.sched.tiles import (
    DotOp,
    RangeOp,
    ReduceOp,
)
from cleave.dialects.sched.types import (
    INDEX,
    BufferType,
    TileType,
)

ELEMENTWISE: tuple[type[ElementwiseOp], ...] = (
    NegOp,
    AbsOp,
    ReluOp,
    ExpOp,
    Expm1Op,
    Exp2Op,
    LogOp,
    Log1pOp,
    Log2Op,
    SqrtOp,
    RsqrtOp,
    TanhOp,
    SigmoidOp,
    SiluOp,
    GeluOp,
    GeluTanhOp,
    SinOp,
    CosOp,
    ErfOp,
    ErfcOp,
    NotOp,
    AddOp,
    SubOp,
    MulOp,
    MaxOp,
    MinOp,
    FloordivOp,
    ModOp,
    DivOp,
    PowOp,
    AndOp,
    OrOp,
    CastOp,
    BroadcastOp,
    CompareOp,
    SelectOp,
)

Sched = Dialect(
    "sched",
    [
        *ELEMENTWISE,
        ConstantOp,
        RangeOp,
        LoadOp,
        StoreOp,
        ReduceOp,
        DotOp,
        YieldOp,
        ForOp,
        IfOp,
        LastOp,
        WaitOp,
        ReleaseOp,
        KernelOp,
        ProgramOp,
        AllocateOp,
        LaunchOp,
        LibraryCallOp,
        LaunchFuncOp,
    ],
    [TileType, BufferType],
)

__all__ = [
    "ELEMENTWISE",
    "INDEX",
    "LIBRARY_CALLEES",
    "AbsOp",
    "AccessOp",
    "AddOp",
    "AllocateOp",
    "AndOp",
    "BinaryOp",
    "BitBinaryOp",
    "BroadcastOp",
    "BufferType",
    "CastOp",
    "CompareOp",
    "ConstantOp",
    "CosOp",
    "DivOp",
    "DotOp",
    "ElementwiseOp",
    "ErfOp",
    "ErfcOp",
    "Exp2Op",
    "ExpOp",
    "Expm1Op",
    "FloatBinaryOp",
    "FloatUnaryOp",
    "FloordivOp",
    "ForOp",
    "GeluOp",
    "GeluTanhOp",
    "IfOp",
    "KernelOp",
    "LastOp",
    "LaunchFuncOp",
    "LaunchOp",
    "LibraryCallOp",
    "LoadOp",
    "Log1pOp",
    "Log2Op",
    "LogOp",
    "MaxOp",
    "MinOp",
    "ModOp",
    "MulOp",
    "NegOp",
    "NotOp",
    "NumberBinaryOp",
    "NumberUnaryOp",
    "OrOp",
    "PowOp",
    "ProgramOp",
    "RangeOp",
    "ReduceOp",
    "ReleaseOp",
    "ReluOp",
    "RsqrtOp",
    "Sched",
    "SelectOp",
    "SigmoidOp",
    "SiluOp",
    "SinOp",
    "SqrtOp",
    "StoreOp",
    "SubOp",
    "TanhOp",
    "TileType",
    "UnaryOp",
    "WaitOp",
    "YieldOp",
    "address_type",
]
