"""
How well the verifier judges: mutants of a dozen programs, with float64 as the oracle.

A *false accept* is a mutant that the verifier takes for the program although float64 results differ; a *false reject* one that
it refuses although no floats tell the two apart. Mutants are those of the programs, of what the search makes of them, and of
partial results by chunks that are put together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..graph import Graph, Symbol
from ..search import SearchOptions, superoptimize
from ..search.equivalence import search
from ..search.verify import Verifier
from . import search_programs as programs
from .mutants import kinds, mutants
from .writing import Write

PER_PROGRAM = 130
"""Mutants of every program and of every alternative."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One mutant, and what is wrong in it: whether the verifier takes it for the program, and whether it is (None: nothing is defined)."""

    program: str
    mutant: str
    accepted: bool
    equal: bool | None
    reason: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def wrong(self) -> bool:
        """Whether verifier and oracle disagree."""
        return self.equal is not None and self.accepted != self.equal


def chunked_attention() -> Graph:
    """Attention with keys in chunks, each with a maximum of its own; the partial results are rescaled to the largest."""
    w = Write(
        {"g": 32, "m": "m", "n": "n", "d": 128, "e": 128, "s": "s", "ni": "ceildiv(n, s)"},
        {"q": "g m d", "k": "g n d", "v": "g n e"},
        [Symbol("s", (4,), positive=True)],
    )
    w.builder.axes = [replace(axis, chunk_of=("n", "s")) if axis.name == "ni" else axis for axis in w.builder.axes]
    q, k, v = w.args
    k, v = (w("split", part, attr=("n", "s", "ni"), dtype="f16") for part in (k, v))
    x = w("mul", w.dot("d", q, k), programs.SCALE)
    largest = w.max("ni", x)
    p = w("exp", w("sub", x, largest))
    rescale = w("exp", w("sub", largest, w.max("s", largest)))
    above = w.sum("s", w("mul", w.dot("ni", p, v), rescale))
    below = w.sum("s", w("mul", w.sum("ni", p), rescale))
    return w.done(w("div", above, below))


def corpus() -> dict[str, tuple[Graph, Graph]]:
    """By name, a program and one for the same value whose mutants are judged."""
    plain = programs.attention(False, False, False)
    written = {
        "attention": plain,
        "masked attention": programs.attention(True, True, True),
        "norm + linear": programs.root_norm_linear(),
        "gated layer": programs.root_norm_gated(),
        "layer norm, one pass": programs.layer_norm_linear(True),
        "layer norm, centred": programs.layer_norm_linear(False),
        "linear attention": programs.linear_attention(),
        "low rank": programs.low_rank(False),
        "cross entropy": programs.cross_entropy(),
        "log-softmax": programs.log_probabilities(),
        "latent attention": programs.latent_attention(False),
        "rotary": rotary_logits(),
        "residual on a sphere": programs.residual_on_sphere(),
    }
    out = {name: (graph, graph) for name, graph in written.items()}
    options = SearchOptions(alternatives=2, split_at_least=100, split_each=1)
    for name, graph in written.items():
        for entry in superoptimize(graph, options).alternatives[1:]:
            if entry.name == "1" or entry.name.endswith("split n"):
                out[f"{name}, alternative {entry.name}"] = (graph, entry.graph)
    out["attention in chunks, rescaled"] = (plain, chunked_attention())
    return out


def rotary_logits() -> Graph:
    """Rotated queries times rotated keys, of a small even head dimension."""
    w = Write({"m": "m", "n": "n", "d": 128, "p": 64}, {"q": "m d", "k": "n d", "cm": "m p", "sm": "m p", "cn": "n p", "sn": "n p"})
    q, k, cm, sm, cn, sn = w.args
    return w.done(w.dot("d", programs.rotated(w, q, cm, sm), programs.rotated(w, k, cn, sn)))


def judged(per_program: int = PER_PROGRAM) -> Iterator[Judgement]:
    """The judgement of every mutant."""
    for number, (name, (graph, other)) in enumerate(corpus().items()):
        verifier = Verifier(graph, 0)
        for mutant in mutants(other, number, per_program):
            problem = verifier.problem(mutant.graph)
            yield Judgement(name, mutant.name, problem is None, oracle(graph, mutant.graph), problem or "", kinds(mutant.name))


def oracle(graph: Graph, other: Graph) -> bool | None:
    """Whether float64 results are equal at sizes of 1 to 7; None where nothing finite was compared. `other` may have more axes."""
    wider = replace(graph, axes=other.axes, symbols=other.symbols)
    found, compared = search(wider, other)
    return False if found is not None else True if compared else None
