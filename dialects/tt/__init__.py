"""
A subset of Triton's own IR, under its names and types.

Decided at this level: everything but what Triton's compiler decides. Tensors are positional (`tensor<64x128xf16>`), each
address, mask, broadcast and transpose is an operation, dynamic sizes and strides are arguments. Kernels are `tt.func`s whose
bodies also use `arith`, `math` and `scf`; the host side stays a `sched.program` beside them.

Printed in generic form the functions are TTIR. xDSL's `arith` has comparisons, select and the conversions of integers for
scalars alone, and no remainder of floats, so here they are `tt.cmpi`, `tt.cmpf`, `tt.select`, `tt.extsi`, `tt.extui`, `tt.trunci`,
`tt.sitofp`, `tt.uitofp`, `tt.fptosi` and `tt.remf`; the `ttir` target prints `arith` for these.

Operations may carry two attributes for readers: `dims`, the names of a tensor's dimensions, and `note`. The `dims` of a function are
those of the grid along which it numbers its programs; a launch must have as many.
Source: triton/include/triton/Dialect/Triton/IR/TritonOps.td.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from cleave.dialects.tt.compound import (
    PRECISIONS,
    DotOp,
    ReduceOp,
    ReduceReturnOp,
)
from cleave.dialects.tt.elements import (
    FLOAT_PREDICATES,
    INTEGER_PREDICATES,
    BitcastOp,
    CmpFOp,
    CmpIOp,
    CompareOp,
    ConversionOp,
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    RemFOp,
    SelectOp,
    SIToFPOp,
    TruncIOp,
    UIToFPOp,
)
from cleave.dialects.tt.function import (
    FuncOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    ReturnOp,
)
from cleave.dialects.tt.inline import (
    RELEASE,
    WAIT,
    InlineAsmOp,
)
from cleave.dialects.tt.memory import (
    CACHES,
    EVICTIONS,
    AddPtrOp,
    AtomicCASOp,
    AtomicRMWOp,
    DescriptorLoadOp,
    DescriptorStoreOp,
    LoadOp,
    MakeTensorDescOp,
    StoreOp,
)
from cleave.dialects.tt.shapes import (
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
    TransOp,
    UnsplatOp,
)
from cleave.dialects.tt.types import (
    PtrType,
    TensorDescType,
    element_of,
    like,
    pointee_of,
    shape_of,
    splat_attr,
    splat_value,
)

_OF_ARITH = ("cmpi", "cmpf", "select", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "remf")
SPELLED = {f"tt.{name}": f"arith.{name}" for name in _OF_ARITH}
"""Operations that Triton spells otherwise."""

Tt = Dialect(
    "tt",
    [
        FuncOp,
        ReturnOp,
        GetProgramIdOp,
        GetNumProgramsOp,
        MakeRangeOp,
        SplatOp,
        UnsplatOp,
        BroadcastOp,
        ExpandDimsOp,
        TransOp,
        ReshapeOp,
        ExtSIOp,
        ExtUIOp,
        TruncIOp,
        SIToFPOp,
        UIToFPOp,
        FPToSIOp,
        BitcastOp,
        CmpIOp,
        CmpFOp,
        RemFOp,
        SelectOp,
        AddPtrOp,
        LoadOp,
        StoreOp,
        AtomicRMWOp,
        AtomicCASOp,
        MakeTensorDescOp,
        DescriptorLoadOp,
        DescriptorStoreOp,
        DotOp,
        ReduceReturnOp,
        ReduceOp,
        InlineAsmOp,
    ],
    [PtrType, TensorDescType],
)

__all__ = [
    "CACHES",
    "EVICTIONS",
    "FLOAT_PREDICATES",
    "INTEGER_PREDICATES",
    "PRECISIONS",
    "RELEASE",
    "SPELLED",
    "WAIT",
    "AddPtrOp",
    "AtomicCASOp",
    "AtomicRMWOp",
    "BitcastOp",
    "BroadcastOp",
    "CmpFOp",
    "CmpIOp",
    "CompareOp",
    "ConversionOp",
    "DescriptorLoadOp",
    "DescriptorStoreOp",
    "DotOp",
    "ExpandDimsOp",
    "ExtSIOp",
    "ExtUIOp",
    "FPToSIOp",
    "FuncOp",
    "GetNumProgramsOp",
    "GetProgramIdOp",
    "InlineAsmOp",
    "LoadOp",
    "MakeRangeOp",
    "MakeTensorDescOp",
    "PtrType",
    "ReduceOp",
    "ReduceReturnOp",
    "RemFOp",
    "ReshapeOp",
    "ReturnOp",
    "SIToFPOp",
    "SelectOp",
    "SplatOp",
    "StoreOp",
    "TensorDescType",
    "TransOp",
    "TruncIOp",
    "Tt",
    "UIToFPOp",
    "UnsplatOp",
    "element_of",
    "like",
    "pointee_of",
    "shape_of",
    "splat_attr",
    "splat_value",
]
