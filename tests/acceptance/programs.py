"""The programs that have to become fused kernels, as text: weighted averages of many kinds, norms with products."""

from __future__ import annotations

from cleave.graph import Graph
from tests.alg_programs import graph_from

WINDOW = (
    "%eight = alg.constant 8 : index",
    "%first = alg.sub %i, %eight : !alg.tensor<[m], index>",
    "%late = alg.compare gt %j, %first : !alg.tensor<[m, n], i1>",
    "%near = alg.and %live, %late : !alg.tensor<[m, n], i1>",
)


def average(
    dtype: str,
    d: int,
    e: int,
    *,
    causal: bool = False,
    window: bool = False,
    own_maximum: bool = False,
    heads: str = "h = 2",
    log_sum: bool = False,
) -> Graph:
    """
    v averaged over n with weights exp(q k / sqrt(d)), `heads` the batch axes: `h = 2`, or `g = 2, r = 4` with keys shared by r.

    `window` leaves the last eight keys of a causal row. With `log_sum` also the logarithm of the sum of weights.
    """
    names = [entry.split("=")[0].strip() for entry in heads.split(",")]
    batch, shared = ", ".join(names), names[0]
    fill = "-inf"
    lines = [
        f"%s = alg.contract %q, %k over [d] : !alg.tensor<[{batch}, m, n], f32>",
        f"%c = alg.constant {d**-0.5!r} : f32",
        f"%x0 = alg.mul %s, %c : !alg.tensor<[{batch}, m, n], f32>",
    ]
    if causal:
        lines += [
            "%i = alg.iota m : !alg.tensor<[m], index>",
            "%j = alg.iota n : !alg.tensor<[n], index>",
            "%live = alg.compare le %j, %i : !alg.tensor<[m, n], i1>",
            *(WINDOW if window else ()),
            f"%hidden = alg.constant {fill} : f32",
            f"%x1 = alg.select {'%near' if window else '%live'}, %x0, %hidden : !alg.tensor<[{batch}, m, n], f32>",
        ]
    x = "%x1" if causal else "%x0"
    if own_maximum:
        lines += [
            f"%top = alg.reduce max {x} over [n] : !alg.tensor<[{batch}, m], f32>",
            f"%x2 = alg.sub {x}, %top : !alg.tensor<[{batch}, m, n], f32>",
        ]
        x = "%x2"
    lines += [
        f"%p = alg.exp {x} : !alg.tensor<[{batch}, m, n], f32>",
        f"%z = alg.reduce sum %p over [n] : !alg.tensor<[{batch}, m], f32>",
        f"%u = alg.div %p, %z : !alg.tensor<[{batch}, m, n], f32>",
        f"%w = alg.cast %u : !alg.tensor<[{batch}, m, n], {dtype}>",
        f"%o = alg.contract %w, %v over [n] : !alg.tensor<[{batch}, m, e], f32>",
        f"%r = alg.cast %o : !alg.tensor<[{batch}, m, e], {dtype}>",
    ]
    outputs, given = f"!alg.tensor<[{batch}, m, e], {dtype}>", "%r"
    if log_sum:
        lines.append(f"%l = alg.log %z : !alg.tensor<[{batch}, m], f32>")
        outputs, given = f"{outputs}, !alg.tensor<[{batch}, m], f32>", "%r, %l"
    body = "\n".join(f"  {line}" for line in lines)
    return graph_from(
        f"alg.graph @average axes [{heads}, m = ?(hint 64), n = ?(hint 512), d = {d}, e = {e}]\n"
        f"    (%q: !alg.tensor<[{batch}, m, d], {dtype}>, %k: !alg.tensor<[{shared}, n, d], {dtype}>,"
        f" %v: !alg.tensor<[{shared}, n, e], {dtype}>) -> ({outputs}) {{\n{body}\n  alg.yield {given}\n}}\n"
    )


def norm(dtype: str, k: int, n: int, *, gated: bool = False) -> Graph:
    """x over its root mean square, scaled by g, times a matrix; `gated` is silu of one product times another."""
    lines = [
        "%f = alg.cast %x : !alg.tensor<[m, k], f32>",
        "%q = alg.mul %f, %f : !alg.tensor<[m, k], f32>",
        "%t = alg.reduce sum %q over [k] : !alg.tensor<[m], f32>",
        "%c = alg.size k : index",
        "%a = alg.div %t, %c : !alg.tensor<[m], f32>",
        "%small = alg.constant 1.0e-06 : f32",
        "%b = alg.add %a, %small : !alg.tensor<[m], f32>",
        "%root = alg.rsqrt %b : !alg.tensor<[m], f32>",
        "%y0 = alg.mul %f, %root : !alg.tensor<[m, k], f32>",
        "%y1 = alg.mul %y0, %g : !alg.tensor<[m, k], f32>",
        f"%y = alg.cast %y1 : !alg.tensor<[m, k], {dtype}>",
        "%o = alg.contract %y, %w over [k] : !alg.tensor<[m, n], f32>",
    ]
    result, more = "%o", ""
    if gated:
        more = f", %w2: !alg.tensor<[k, n], {dtype}> weight"
        lines += [
            "%o2 = alg.contract %y, %w2 over [k] : !alg.tensor<[m, n], f32>",
            "%h = alg.silu %o : !alg.tensor<[m, n], f32>",
            "%u = alg.mul %h, %o2 : !alg.tensor<[m, n], f32>",
        ]
        result = "%u"
    lines.append(f"%r = alg.cast {result} : !alg.tensor<[m, n], {dtype}>")
    body = "\n".join(f"  {line}" for line in lines)
    return graph_from(
        f"alg.graph @norm axes [m = ?(hint 64), k = {k}, n = {n}]\n"
        f"    (%x: !alg.tensor<[m, k], {dtype}>, %g: !alg.tensor<[k], {dtype}> weight, %w: !alg.tensor<[k, n], {dtype}> weight{more})"
        f" -> (!alg.tensor<[m, n], {dtype}>) {{\n{body}\n  alg.yield %r\n}}\n"
    )


def linear_average() -> Graph:
    """(q k) v without weights between: never needs the m x n matrix."""
    return graph_from(
        """
alg.graph @linear axes [h = 4, m = ?(hint 4096), n = ?(hint 4096), d = 64, e = 64]
    (%q: !alg.tensor<[h, m, d], f16>, %k: !alg.tensor<[h, n, d], f16>, %v: !alg.tensor<[h, n, e], f16>) -> (!alg.tensor<[h, m, e], f16>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[h, m, n], f32>
  %c = alg.cast %s : !alg.tensor<[h, m, n], f16>
  %o = alg.contract %c, %v over [n] : !alg.tensor<[h, m, e], f32>
  %r = alg.cast %o : !alg.tensor<[h, m, e], f16>
  alg.yield %r
}
"""
    )
