"""
Regions that change nothing of what is computed: `with torch.autocast(..., enabled=False)`, `torch.enable_grad()` and their kin.

torch.export makes an operator of each, with its body as a program of its own; here the body takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CleaveError
from .naming import unique
from .traced import operator_name, place_of

_FIXED: Mapping[str, int] = {"wrap_with_autocast": 4, "wrap_with_set_grad_enabled": 1}
"""How many arguments the operator of a region has before its body."""


def inline_regions(program: Any, place: str) -> None:
    """Puts the operators of regions, and of those inside, in their place. Raises: CleaveError for a region with autocast."""
    graph = program.graph
    while True:
        region = next((node for node in graph.nodes if operator_name(node.target) in _FIXED), None)
        if region is None:
            break
        body = getattr(program.graph_module, region.args[_FIXED[operator_name(region.target)]].target)
        _refuse_autocast(region, body, place)
        results = _copied(program, region, body)
        for user in list(region.users):
            made = results[user.args[1]]
            user.replace_all_uses_with(made)
            program.graph_signature.replace_all_uses(user.name, made.name)
            graph.erase_node(user)
        graph.erase_node(region)
    program.graph_module.recompile()


def _refuse_autocast(region: Any, body: Any, place: str) -> None:
    if operator_name(region.target) == "wrap_with_autocast" and region.args[2]:
        kind = str(region.args[1]).removeprefix("torch.")
        inside = [place_of(node) for node in body.graph.nodes]
        at = next((line for line in [place_of(region), *inside] if line), place)
        raise CleaveError(
            at or None, f"what is inside is computed in {kind}", "convert operands one by one, as by x.to()", op="torch.autocast"
        )


def _copied(program: Any, region: Any, body: Any) -> Sequence[Any]:
    """The operators of a region's body copied before it, what they hold moved to the program. Gives what its results are there."""
    given = iter(region.args[_FIXED[operator_name(region.target)] + 1 :])
    here: dict[Any, Any] = {}
    with program.graph.inserting_before(region):
        for node in body.graph.nodes:
            if node.op == "placeholder":
                here[node] = next(given)
            elif node.op == "output":
                return [here[one] for one in node.args[0]]
            else:
                here[node] = program.graph.node_copy(node, here.__getitem__)
                if node.op == "get_attr":
                    here[node].target = unique(node.target, (name for name, _ in program.graph_module.named_children()))
                    setattr(program.graph_module, here[node].target, getattr(body, node.target))
    raise AssertionError("the body of a region has results")
