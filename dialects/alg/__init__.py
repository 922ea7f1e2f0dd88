"""
The tensor algebra: what is computed.

Decided at this level: the operations, and which axis of one tensor is which axis of another. Tensors have named axes,
`!alg.tensor<[b, m, d], f16>`; elementwise operations broadcast by name, reductions and contractions name the axes they
remove, and there is no transpose or reshape. Left open: memory layout beyond that of arguments and results, tile sizes,
order of evaluation, and the precision of what is in between: a cast is the identity here.

An `alg.graph` declares its axes once, each with an extent over symbols:

    alg.graph @scores axes [m = ?(hint 512), n = ?(hint 4096, multiple_of 16), d = 128]
        (%q: !alg.tensor<[m, d], f16> layout "m d", %k: !alg.tensor<[n, d], f16> layout "n d")
        -> (!alg.tensor<[m, n], f32> layout "m n") {
      %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
      alg.yield %s : !alg.tensor<[m, n], f32>
    }

`m = ?(...)` is an axis whose extent is a symbol of its own name, known at run time. Operations write the type of their
result; those of operands follow from their definitions. A tensor without axes is written as its element type.

Axes in a type are a set: any order may be written. `cleave.graph` has the same programs as plain values, with the same
names: operation `alg.exp` is an `Op` of kind `exp`.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from cleave.dialects.alg.axes import (
    ConcatOp,
    ContractOp,
    GatherOp,
    IndexOp,
    MergeOp,
    PadOp,
    ReduceOp,
    RenameOp,
    ShiftOp,
    SliceOp,
    SplitOp,
)
from cleave.dialects.alg.base import (
    AlgOp,
    AxisScope,
    enclosing_scope,
)
from cleave.dialects.alg.elementwise import (
    AbsOp,
    AddOp,
    AndOp,
    BinaryOp,
    CastOp,
    CompareOp,
    ConstantOp,
    CosOp,
    DivOp,
    ErfcOp,
    ErfOp,
    Expm1Op,
    ExpOp,
    FloordivOp,
    GeluOp,
    GeluTanhOp,
    IotaOp,
    Log1pOp,
    LogicalOp,
    LogOp,
    MaxOp,
    MinOp,
    ModOp,
    MulOp,
    NegOp,
    NotOp,
    NumberUnaryOp,
    OrOp,
    PowOp,
    ReluOp,
    RsqrtOp,
    SelectOp,
    SigmoidOp,
    SiluOp,
    SinOp,
    SizeOp,
    SqrtOp,
    SubOp,
    TanhOp,
    UnaryOp,
)
from cleave.dialects.alg.graph import (
    AlternativesOp,
    GraphOp,
    YieldOp,
)
from cleave.dialects.alg.types import (
    AxisAttr,
    ExtentAttr,
    Predicate,
    PredicateAttr,
    Reduction,
    ReductionAttr,
    SymbolAttr,
    TensorType,
    facts_text,
    tensor,
)

__all__ = [
    "OPERATIONS",
    "AbsOp",
    "AddOp",
    "Alg",
    "AlgOp",
    "AlternativesOp",
    "AndOp",
    "AxisAttr",
    "AxisScope",
    "BinaryOp",
    "CastOp",
    "CompareOp",
    "ConcatOp",
    "ConstantOp",
    "ContractOp",
    "CosOp",
    "DivOp",
    "ErfOp",
    "ErfcOp",
    "ExpOp",
    "Expm1Op",
    "ExtentAttr",
    "FloordivOp",
    "GatherOp",
    "GeluOp",
    "GeluTanhOp",
    "GraphOp",
    "IndexOp",
    "IotaOp",
    "Log1pOp",
    "LogOp",
    "LogicalOp",
    "MaxOp",
    "MergeOp",
    "MinOp",
    "ModOp",
    "MulOp",
    "NegOp",
    "NotOp",
    "NumberUnaryOp",
    "OrOp",
    "PadOp",
    "PowOp",
    "Predicate",
    "PredicateAttr",
    "ReduceOp",
    "Reduction",
    "ReductionAttr",
    "ReluOp",
    "RenameOp",
    "RsqrtOp",
    "SelectOp",
    "ShiftOp",
    "SigmoidOp",
    "SiluOp",
    "SinOp",
    "SizeOp",
    "SliceOp",
    "SplitOp",
    "SqrtOp",
    "SubOp",
    "SymbolAttr",
    "TanhOp",
    "TensorType",
    "UnaryOp",
    "YieldOp",
    "enclosing_scope",
    "facts_text",
    "tensor",
]

_TENSOR_OPS: tuple[type[AlgOp], ...] = (
    ConstantOp,
    SizeOp,
    IotaOp,
    NegOp,
    AbsOp,
    ReluOp,
    ExpOp,
    Expm1Op,
    LogOp,
    Log1pOp,
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
    DivOp,
    MaxOp,
    MinOp,
    PowOp,
    FloordivOp,
    ModOp,
    AndOp,
    OrOp,
    CompareOp,
    SelectOp,
    CastOp,
    ReduceOp,
    ContractOp,
    ShiftOp,
    RenameOp,
    SplitOp,
    MergeOp,
    SliceOp,
    IndexOp,
    ConcatOp,
    PadOp,
    GatherOp,
)

OPERATIONS: dict[str, type[AlgOp]] = {op.name.removeprefix("alg."): op for op in _TENSOR_OPS}
"""The operation of each kind of `cleave.graph.Op`."""

Alg = Dialect(
    "alg",
    [GraphOp, AlternativesOp, YieldOp, *_TENSOR_OPS],
    [TensorType, ExtentAttr, SymbolAttr, AxisAttr, PredicateAttr, ReductionAttr],
)
