"""The programs that the search is measured on, as a person writes them: at sizes of real models, dynamic where those are."""

from __future__ import annotations

from ..graph import Graph
from .writing import Write

SCALE = 0.08838834764831845
"""1 over the root of 128."""


def attention(safe: bool = True, causal: bool = True, grouped: bool = True) -> Graph:
    """Scaled dot-product attention, perhaps with the maximum subtracted, a causal mask, grouped heads."""
    axes: dict[str, int | str] = {"g": 8, "r": 4} if grouped else {"g": 32}
    heads = "g r" if grouped else "g"
    w = Write({**axes, "m": "m", "n": "n", "d": 128, "e": 128}, {"q": f"{heads} m d", "k": "g n d", "v": "g n e"})
    q, k, v = w.args
    x = w("mul", w.dot("d", q, k), SCALE)
    x = w.causal("m", "n", x) if causal else x
    return w.done(w.dot("n", w.half(w.probabilities("n", x, safe)), v))


def root_norm_linear() -> Graph:
    """RMSNorm with a gain, then a linear layer."""
    w = Write({"m": "m", "k": 4096, "n": 6144}, {"x": "m k", "g": "k", "w": "k n"})
    x, g, weight = w.args
    return w.done(w.dot("k", w.normed("k", x, g), weight))


def root_norm_gated() -> Graph:
    """RMSNorm with a gain, then a gated layer."""
    w = Write({"m": "m", "k": 4096, "n": 14336}, {"x": "m k", "g": "k", "w1": "k n", "w2": "k n"})
    x, g, first, second = w.args
    y = w.normed("k", x, g)
    return w.done(w("mul", w("silu", w.dot("k", y, first)), w.dot("k", y, second)))


def layer_norm_linear(one_pass: bool) -> Graph:
    """LayerNorm with gain and bias, its variance in one pass or centred, then a linear layer."""
    w = Write({"m": "m", "k": 4096, "n": 4096}, {"x": "m k", "g": "k", "b": "k", "w": "k n"})
    x, g, b, weight = w.args
    mean = w.mean("k", x)
    centred = w("sub", x, mean)
    if one_pass:
        variance = w("sub", w.mean("k", w("mul", x, x)), w("mul", mean, mean))
    else:
        variance = w.mean("k", w("mul", centred, centred))
    y = w("mul", centred, w("rsqrt", w("add", variance, 1e-5)))
    return w.done(w.dot("k", w.half(w("add", w("mul", y, g), b)), weight))


def low_rank(merged: bool) -> Graph:
    """A linear layer with a low-rank correction, as two paths or as one corrected weight."""
    w = Write({"m": "m", "k": 4096, "n": 4096, "r": 16}, {"x": "m k", "w": "k n", "a": "k r", "b": "r n"})
    x, weight, a, b = w.args
    if merged:
        return w.done(w.dot("k", x, w.half(w("add", weight, w("mul", w.dot("r", a, b), 2.0)))))
    return w.done(w("add", w.dot("k", x, weight), w("mul", w.dot("r", w.half(w.dot("k", x, a)), b), 2.0)))


def latent_attention(decode: bool) -> Graph:
    """MLA: keys and values are up-projections of a shared latent; a rotary part of the logits bypasses them."""
    rows = "" if decode else "m "
    axes: dict[str, int | str] = {"h": 16} if decode else {"h": 16, "m": "m"}
    inputs = {"q": f"h {rows}d", "qr": f"h {rows}t", "c": "n l", "kr": "n t", "uk": "h l d", "uv": "h l e"}
    w = Write({**axes, "n": "n", "d": 128, "t": 64, "l": 512, "e": 128}, inputs)
    q, qr, c, kr, uk, uv = w.args
    k, v = (w.half(w.dot("l", c, up)) for up in (uk, uv))
    x = w("mul", w("add", w.dot("d", q, k), w.dot("t", qr, kr)), 0.0721688)
    return w.done(w.dot("n", w.half(w.probabilities("n", x)), v))


def normed_attention() -> Graph:
    """Attention with normalised queries and keys (QK-norm)."""
    w = Write({"h": 32, "m": "m", "n": "n", "d": 128, "e": 128}, {"q": "h m d", "k": "h n d", "v": "h n e", "gq": "d", "gk": "d"})
    q, k, v, gq, gk = w.args
    x = w.causal("m", "n", w("mul", w.dot("d", w.normed("d", q, gq), w.normed("d", k, gk)), SCALE))
    return w.done(w.dot("n", w.half(w.probabilities("n", x, safe=True)), v))


def linear_attention() -> Graph:
    """(q k^T) v without a function between."""
    w = Write({"h": 32, "m": "m", "n": "n", "d": 64, "e": 64}, {"q": "h m d", "k": "h n d", "v": "h n e"})
    q, k, v = w.args
    return w.done(w.dot("n", w.half(w.dot("d", q, k)), v))


def row_sum() -> Graph:
    """rowsum(x w)."""
    w = Write({"m": "m", "k": 64, "n": 4096}, {"x": "m k", "w": "k n"})
    x, weight = w.args
    return w.done(w.sum("n", w.dot("k", x, weight)))


def log_probabilities() -> Graph:
    """A linear layer and its log-softmax."""
    w = Write({"m": "m", "k": 4096, "n": 32000}, {"x": "m k", "w": "k n"})
    x, weight = w.args
    logits = w.dot("k", x, weight)
    shifted = w("sub", logits, w.max("n", logits))
    return w.done(w("sub", shifted, w("log", w.sum("n", w("exp", shifted)))))


def cross_entropy() -> Graph:
    """logsumexp of the logits minus the logit of the label, which a one-hot tensor gives."""
    w = Write({"m": "m", "k": 4096, "n": 32000}, {"x": "m k", "w": "k n", "one": "m n"})
    x, weight, one = w.args
    logits = w.dot("k", x, weight)
    largest = w.max("n", logits)
    normaliser = w("add", w("log", w.sum("n", w("exp", w("sub", logits, largest)))), largest)
    return w.done(w("sub", normaliser, w.sum("n", w("mul", logits, one))))


def residual_on_sphere() -> Graph:
    """nGPT's residual: h <- norm(h + a (norm(y) - h)), norm to unit length."""
    w = Write({"m": "m", "k": 4096}, {"h": "m k", "y": "m k", "a": "k"})
    h, y, a = w.args

    def unit(v: int) -> int:
        return w("mul", v, w("rsqrt", w.sum("k", w("mul", v, v))))

    return w.done(unit(w("add", h, w("mul", a, w("sub", unit(y), h)))))


_SELF = {"m": "m", "n": "m", "c": 4096, "h": 32, "d": 128, "e": 128, "f": 4096}


def projected_attention() -> Graph:
    """Norm, projections of one input, QK-norm, causal attention, output projection, residual."""
    leaves = {"x": "m c", "g": "c", "wq": "c h d", "wk": "c h d", "wv": "c h e", "gq": "d", "gk": "d", "wo": "h e f"}
    w = Write(_SELF, leaves)
    x, g, wq, wk, wv, gq, gk, wo = w.args
    return w.done(_self_attention(w, x, g, wq, wk, wv, gq, gk, wo))


def rotary_attention() -> Graph:
    """Causal attention with rotated queries and keys (RoPE)."""
    w = Write(
        {"h": 32, "m": "m", "n": "n", "d": 128, "p": 64, "e": 128},
        {"q": "h m d", "k": "h n d", "v": "h n e", "cm": "m p", "sm": "m p", "cn": "n p", "sn": "n p"},
    )
    q, k, v, cm, sm, cn, sn = w.args
    x = w.causal("m", "n", w("mul", w.dot("d", rotated(w, q, cm, sm), rotated(w, k, cn, sn)), SCALE))
    return w.done(w.dot("n", w.half(w.probabilities("n", x, safe=True)), v))


def rotated(w: Write, x: int, cosine: int, sine: int) -> int:
    """The halves of axis d, of p elements each, rotated: (a cos - b sin, b cos + a sin)."""
    dtype = w.builder.ops[x].dtype
    a, b = (w("slice", x, attr=("d", "p", start, 1), dtype=dtype) for start in (0, 64))
    turned = (
        w("sub", w("mul", a, cosine), w("mul", b, sine)),
        w("add", w("mul", b, cosine), w("mul", a, sine)),
    )  # fmt: skip
    return w.half(w("concat", *turned, attr=(("p", "p"), "d")))


def transformer(layers: int) -> Graph:
    """
    Pre-norm transformer blocks: norm, projections, QK-norm, RoPE, causal attention, output projection, residual, norm, SwiGLU,
    residual. Every layer has weights of its own; the rotation is shared.
    """
    leaves: dict[str, str] = {"x": "m c", "cos": "m p", "sin": "m p"}
    for at in range(layers):
        leaves |= {f"g{at}": "c", f"wq{at}": "c h d", f"wk{at}": "c h d", f"wv{at}": "c h e", f"gq{at}": "d", f"gk{at}": "d"}
        leaves |= {f"wo{at}": "h e f", f"gf{at}": "f", f"w1{at}": "f i", f"w2{at}": "f i", f"w3{at}": "i c"}
    w = Write({**_SELF, "p": 64, "i": 14336}, leaves)
    x, cosine, sine, *weights = w.args
    for at in range(layers):
        g, wq, wk, wv, gq, gk, wo, gf, first, second, third = weights[11 * at : 11 * (at + 1)]
        y = _self_attention(w, x, g, wq, wk, wv, gq, gk, wo, (cosine, sine))
        z = w.normed("f", y, gf)
        gated = w.half(w("mul", w("silu", w.dot("f", z, first)), w.dot("f", z, second)))
        x = w.half(w("add", w.dot("i", gated, third), w.rename(y, f="c")))
    return w.done(x)


def _self_attention(
    w: Write, x: int, g: int, wq: int, wk: int, wv: int, gq: int, gk: int, wo: int, rotation: tuple[int, int] | None = None
) -> int:
    """x plus attention over its rows, with axis c renamed to f."""
    y = w.normed("c", x, g)
    columns = w.rename(y, m="n")
    q, k = w.normed("d", w.dot("c", y, wq), gq), w.normed("d", w.dot("c", columns, wk), gk)
    if rotation is not None:
        q = rotated(w, q, *rotation)
        k = rotated(w, k, *(w.rename(part, m="n") for part in rotation))
    v = w.half(w.dot("c", columns, wv))
    p = w.probabilities("n", w.causal("m", "n", w("mul", w.dot("d", q, k), SCALE)), safe=True)
    o = w.half(w.dot("n", w.half(p), v))
    return w.half(w("add", w.dot("h e", o, wo), w.rename(x, c="f")))
