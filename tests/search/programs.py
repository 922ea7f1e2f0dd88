"""Programs for tests of the search, written as a person writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cleave.extents import extent
from cleave.graph import Attr, Axis, Builder, Graph, Input, Output, Symbol


class Write:
    """A builder with short names: operands are positions, numbers become constants, results are f32 unless said."""

    def __init__(
        self, axes: Mapping[str, int | str], inputs: Mapping[str, str], symbols: Sequence[Symbol] = (), dtype: str = "f16"
    ) -> None:
        declared = [Axis(name, extent(size)) for name, size in axes.items()]
        leaves = [Input(name, tuple(text.split()), dtype, text) for name, text in inputs.items()]
        used = {symbol for axis in declared for symbol in axis.extent.symbols}
        known = {symbol.name: symbol for symbol in symbols}
        self.b = Builder("f", [known.get(name, Symbol(name, (512,))) for name in sorted(used)], declared, leaves)
        self.args = tuple(range(len(leaves)))

    def __call__(self, kind: str, *args: int | float, attr: tuple[Attr, ...] = (), dtype: str | None = "f32") -> int:
        positions = [self.number(arg) if isinstance(arg, float) else arg for arg in args]
        return self.b.add(kind, *positions, attr=attr, dtype=dtype)

    def number(self, value: float) -> int:
        return self.b.add("constant", attr=(value,), dtype="f32")

    def dot(self, axes: str, *args: int) -> int:
        return self("contract", *args, attr=(tuple(axes.split()),))

    def sum(self, axes: str, arg: int) -> int:
        return self("reduce", arg, attr=("sum", tuple(axes.split())))

    def max(self, axes: str, arg: int) -> int:
        return self("reduce", arg, attr=("max", tuple(axes.split())))

    def mean(self, axis: str, arg: int) -> int:
        return self("div", self.sum(axis, arg), self("size", attr=(axis,), dtype="index"))

    def rename(self, arg: int, **pairs: str) -> int:
        return self("rename", arg, attr=(tuple(pairs.items()),), dtype=self.b.ops[arg].dtype)

    def causal(self, rows: str, columns: str, arg: int) -> int:
        i, j = (self("iota", attr=(axis,), dtype="index") for axis in (rows, columns))
        return self("select", self("compare", j, i, attr=("le",), dtype="i1"), arg, float("-inf"))

    def probabilities(self, axis: str, x: int, safe: bool = False) -> int:
        if safe:
            x = self("sub", x, self.max(axis, x))
        p = self("exp", x)
        return self("div", p, self.sum(axis, p))

    def root_mean_square(self, axis: str, x: int) -> int:
        return self("rsqrt", self("add", self.mean(axis, self("mul", x, x)), 1e-6))

    def done(self, *values: int, dtype: str = "f16") -> Graph:
        return self.b.finish([Output(value, " ".join(self.b.ops[value].axes), dtype) for value in values])


def attention(safe: bool = False, causal: bool = False, grouped: bool = False, scale: float = 0.08838834764831845) -> Graph:
    heads = "g r " if grouped else ""
    group = "g " if grouped else ""
    axes: dict[str, int | str] = {"g": 8, "r": 4} if grouped else {}
    w = Write({**axes, "m": "m", "n": "n", "d": 128, "e": 128}, {"q": f"{heads}m d", "k": f"{group}n d", "v": f"{group}n e"})
    q, k, v = w.args
    x = w("mul", w.dot("d", q, k), scale)
    if causal:
        x = w.causal("m", "n", x)
    return w.done(w.dot("n", w("cast", w.probabilities("n", x, safe), dtype="f16"), v))


def norm_linear(gain: bool = True) -> Graph:
    w = Write({"m": "m", "k": 4096, "n": 6144}, {"x": "m k", "w": "k n", **({"g": "k"} if gain else {})})
    x, weight, *rest = w.args
    y = w("mul", x, w.root_mean_square("k", x))
    for g in rest:
        y = w("mul", y, g)
    return w.done(w.dot("k", w("cast", y, dtype="f16"), weight))


def norm_gated() -> Graph:
    w = Write({"m": "m", "k": 4096, "n": 14336}, {"x": "m k", "g": "k", "w1": "k n", "w2": "k n"})
    x, g, w1, w2 = w.args
    y = w("cast", w("mul", w("mul", x, w.root_mean_square("k", x)), g), dtype="f16")
    return w.done(w("mul", w("silu", w.dot("k", y, w1)), w.dot("k", y, w2)))


def linear_attention() -> Graph:
    w = Write({"h": 32, "m": "m", "n": "n", "d": 64, "e": 64}, {"q": "h m d", "k": "h n d", "v": "h n e"})
    q, k, v = w.args
    return w.done(w.dot("n", w("cast", w.dot("d", q, k), dtype="f16"), v))


def latent_attention(decode: bool = False) -> Graph:
    """Keys and values come from a shared latent by up-projections of each head; a rotary part of the logits bypasses them."""
    rows = "" if decode else "m "
    axes: dict[str, int | str] = {"h": 16} if decode else {"h": 16, "m": "m"}
    inputs = {"q": f"h {rows}d", "qr": f"h {rows}t", "c": "n l", "kr": "n t", "uk": "h l d", "uv": "h l e"}
    w = Write({**axes, "n": "n", "d": 128, "t": 64, "l": 512, "e": 128}, inputs)
    q, qr, c, kr, uk, uv = w.args
    k, v = (w("cast", w.dot("l", c, up), dtype="f16") for up in (uk, uv))
    x = w("mul", w("add", w.dot("d", q, k), w.dot("t", qr, kr)), 0.0721688)
    return w.done(w.dot("n", w("cast", w.probabilities("n", x), dtype="f16"), v))


def low_rank(merged: bool = False) -> Graph:
    """A linear map with a low-rank correction, as two paths or as one corrected weight."""
    w = Write({"m": "m", "k": 4096, "n": 4096, "r": 16}, {"x": "m k", "w": "k n", "a": "k r", "b": "r n"})
    x, weight, a, b = w.args
    if merged:
        return w.done(w.dot("k", x, w("cast", w("add", weight, w("mul", w.dot("r", a, b), 2.0)), dtype="f16")))
    return w.done(w("add", w.dot("k", x, weight), w("mul", w.dot("r", w("cast", w.dot("k", x, a), dtype="f16"), b), 2.0)))


def matmul_rowsum() -> Graph:
    w = Write({"m": "m", "k": 64, "n": 4096}, {"x": "m k", "w": "k n"})
    x, weight = w.args
    return w.done(w.sum("n", w.dot("k", x, weight)))


def matmul_matmul() -> Graph:
    w = Write({"m": "m", "k": 64, "n": 4096, "e": 64}, {"x": "m k", "w": "n k", "v": "n e"})
    x, weight, v = w.args
    return w.done(w.dot("n", w("cast", w.dot("k", x, weight), dtype="f16"), v))


def centred_norm_linear(one_pass: bool = False) -> Graph:
    w = Write({"m": "m", "k": 4096, "n": 4096}, {"x": "m k", "g": "k", "b": "k", "w": "k n"})
    x, g, b, weight = w.args
    mean = w.mean("k", x)
    centred = w("sub", x, mean)
    if one_pass:
        variance = w("sub", w.mean("k", w("mul", x, x)), w("mul", mean, mean))
    else:
        variance = w.mean("k", w("mul", centred, centred))
    y = w("mul", centred, w("rsqrt", w("add", variance, 1e-5)))
    y = w("add", w("mul", y, g), b)
    return w.done(w.dot("k", w("cast", y, dtype="f16"), weight))


def cross_entropy() -> Graph:
    """logsumexp of the logits, with the usual maximum, minus the logit of the label."""
    w = Write({"m": "m", "k": 4096, "n": 32000}, {"x": "m k", "w": "k n", "one": "m n"})
    x, weight, one = w.args
    logits = w.dot("k", x, weight)
    shifted = w("sub", logits, w.max("n", logits))
    normaliser = w("add", w("log", w.sum("n", w("exp", shifted))), w.max("n", logits))
    return w.done(w("sub", normaliser, w.sum("n", w("mul", logits, one))))


def log_probabilities() -> Graph:
    w = Write({"m": "m", "k": 4096, "n": 32000}, {"x": "m k", "w": "k n"})
    x, weight = w.args
    logits = w.dot("k", x, weight)
    shifted = w("sub", logits, w.max("n", logits))
    return w.done(w("sub", shifted, w("log", w.sum("n", w("exp", shifted)))))


def normed_attention() -> Graph:
    """Queries and keys are normalised with gains before their product."""
    w = Write({"h": 32, "m": "m", "n": "n", "d": 128, "e": 128}, {"q": "h m d", "k": "h n d", "v": "h n e", "gq": "d", "gk": "d"})
    q, k, v, gq, gk = w.args
    q, k = (w("cast", w("mul", w("mul", x, w.root_mean_square("d", x)), g), dtype="f16") for x, g in ((q, gq), (k, gk)))
    x = w.causal("m", "n", w("mul", w.dot("d", q, k), 0.08838834764831845))
    return w.done(w.dot("n", w("cast", w.probabilities("n", x, safe=True), dtype="f16"), v))


def residual_on_sphere() -> Graph:
    """h <- norm(h + a (norm(y) - h)), norm to unit length, as nGPT's residual does."""
    w = Write({"m": "m", "k": 4096}, {"h": "m k", "y": "m k", "a": "k"})
    h, y, a = w.args

    def unit(v: int) -> int:
        return w("mul", v, w("rsqrt", w.sum("k", w("mul", v, v))))

    return w.done(unit(w("add", h, w("mul", a, w("sub", unit(y), h)))))


def self_attention_block(heads: int = 32) -> Graph:
    """Norm, projections of one input to queries, keys and values, normed causal attention, output projection, residual."""
    axes: dict[str, int | str] = {"m": "m", "n": "m", "c": 4096, "h": heads, "d": 128, "e": 128, "f": 4096}
    leaves = {"x": "m c", "g": "c", "wq": "c h d", "wk": "c h d", "wv": "c h e", "gq": "d", "gk": "d", "wo": "h e f"}
    w = Write(axes, leaves)
    x, g, wq, wk, wv, gq, gk, wo = w.args

    def normed(v: int, axis: str, gain: int) -> int:
        return w("cast", w("mul", w("mul", v, w.root_mean_square(axis, v)), gain), dtype="f16")

    y = normed(x, "c", g)
    yn = w.rename(y, m="n")
    q, k = normed(w.dot("c", y, wq), "d", gq), normed(w.dot("c", yn, wk), "d", gk)
    v = w("cast", w.dot("c", yn, wv), dtype="f16")
    p = w.probabilities("n", w.causal("m", "n", w("mul", w.dot("d", q, k), 0.08838834764831845)), safe=True)
    o = w("cast", w.dot("n", w("cast", p, dtype="f16"), v), dtype="f16")
    return w.done(w("add", w.dot("h e", o, wo), w.rename(x, c="f")))


def focal_loss() -> Graph:
    """-sum (1 - p)^2 log p of probabilities p: sums of sums in every factor."""
    w = Write({"m": 512, "n": 4096}, {"x": "m n"})
    (x,) = w.args
    rest = w("sub", 1.0, w.probabilities("n", x, safe=True))
    shifted = w("sub", x, w.max("n", x))
    logs = w("sub", shifted, w("log", w.sum("n", w("exp", shifted))))
    return w.done(w("neg", w.sum("n", w("mul", w("mul", rest, rest), logs))))
