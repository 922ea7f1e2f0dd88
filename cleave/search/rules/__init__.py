"""
The algebra: which other forms an expression has.

The law: a rule proposes expressions; each is evaluated when it is made and joins whatever class has its value, so a rule can
be useless but not wrong. Rules work on flat forms and from the target downwards, so nothing irrelevant is built:

- product: open factors that are products; every part of the product; what several exps have in common
- sum: open terms that are sums; every part of the sum; join sums over the same axes; take common factors out
- sum over axes: factors without the axes move out; a subset of the axes goes first, over the factors that have them; sums
  nested in a factor join; a sum of terms is a sum of sums
- exp: of a sum, a product of exps, one for each set of axes that its terms have
- log: of a product, a sum
- slices, concatenations, paddings and merged axes: see `movement`

Distribution happens under a sum over axes only, and not under one over a piece of an axis; elsewhere a common factor stays whole.
It makes a sum of sums over axes at once, which is opened all at once and joined in one way only: with the terms in groups that have
the same factors outside. All its partial sums, each as a sum over axes of an elementwise sum, would be 2^k values.
"""

from __future__ import annotations

from collections.abc import Callable

from ..egraph import EGraph
from ..forms import Call, Exp
from ..movement import common_factors, exp_of_padding, take_inside
from .functions import exp_of_sum, log_of_product
from .limits import Limits
from .products import ProductRules
from .reductions import ReductionRules
from .sums import SumRules


class Rules:
    """The rules over one e-graph. `fits` says whether a tensor with the axes of a mask may be stored."""

    def __init__(self, egraph: EGraph, fits: Callable[[int], bool]) -> None:
        self.e = egraph
        self.limits = Limits()
        self.products = ProductRules(egraph, fits, self.limits)
        self.sums = SumRules(egraph, self.limits)
        self.reductions = ReductionRules(egraph, fits, self.limits, self.sums)

    def apply(self, c: int) -> None:
        """Every rule on every form of a class."""
        entry = self.e.classes[c]
        for product in list(entry.products):
            self.products.apply(product)
        for total in list(entry.sums):
            self.sums.apply(total)
        for reduction in list(entry.reductions):
            self.reductions.apply(reduction)
        for node in list(entry.nodes):
            if isinstance(node, Exp):
                exp_of_sum(self.e, node)
                exp_of_padding(self.e, node.body)
            elif isinstance(node, Call) and node.kind == "log":
                log_of_product(self.e, node)
            elif isinstance(node, Call) and node.kind in ("slice", "index"):
                take_inside(self.e, node)
            elif isinstance(node, Call) and node.kind in ("concat", "merge", "pad", "select"):
                common_factors(self.e, node)
