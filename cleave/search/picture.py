"""
The e-graph as text: JSON, or dot for Graphviz.

A class is a value; it is shown with its axes, and with every form by which the search knows it. The classes that the program as
written computes have the positions of its operations. The text is a function of the graph and the options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction

from ..graph import Attr
from .explore import Exploration
from .forms import Call, Exp, Leaf, Node, Product, Reduce, Sum, operands


def as_json(explorations: Mapping[str, Exploration]) -> str:
    """One object for every program, by name; a class takes a line."""
    programs: list[str] = []
    for name, found in explorations.items():
        head = f'"results": {json.dumps([f"c{root}" for root in found.roots])}, "caps": {json.dumps(list(found.caps))}'
        classes = ",\n  ".join(json.dumps(entry) for entry in _classes(found))
        programs.append(f'{json.dumps(name)}: {{{head}, "classes": [\n  {classes}\n]}}')
    return "{" + ",\n".join(programs) + "}\n"


def as_dot(explorations: Mapping[str, Exploration]) -> str:
    """One cluster for every program: a box for a class, an ellipse for a form, the classes of results in bold."""
    lines = ["digraph egraph {", "  rankdir=BT;", "  node [fontname=Helvetica, fontsize=10];"]
    for number, (name, found) in enumerate(explorations.items()):
        lines += [f"  subgraph cluster_{number} {{", f"    label={json.dumps(name)};"]
        for c, entry in enumerate(found.egraph.classes):
            style = ", style=bold" if c in found.roots else "" if found.storable(entry.mask) else ", style=dashed"
            lines.append(f"    g{number}c{c} [shape=box{style}, label={json.dumps(_heading(found, c))}];")
            for at, node in enumerate(entry.nodes):
                form = f"g{number}c{c}f{at}"
                lines.append(f"    {form} [shape=ellipse, label={json.dumps(form_text(found, node))}];")
                lines.append(f"    {form} -> g{number}c{c};")
                lines += [f"    g{number}c{arg} -> {form};" for arg in dict.fromkeys(operands(node))]
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def form_text(found: Exploration, node: Node) -> str:
    """A form over classes c0, c1, ..."""
    match node:
        case Leaf("input", (position,)):
            return found.graph.inputs[int(str(position))].name
        case Leaf("constant", (int(above), int(below))):
            return _number(Fraction(above, below))
        case Leaf(kind, attr, _):
            return f"{kind} {' '.join(map(str, attr))}".strip()
        case Product(coefficient, factors):
            parts = [_power(c, exponent) for c, exponent in factors]
            return " * ".join([*([] if coefficient == 1 else [_number(coefficient)]), *parts])
        case Sum(constant, terms):
            parts = [f"c{c}" if k == 1 else f"{_number(k)} c{c}" for c, k in terms]
            return " + ".join([*([] if constant == 0 else [_number(constant)]), *parts])
        case Reduce(mask, body):
            return f"sum[{' '.join(found.egraph.names(mask))}] c{body}"
        case Exp(body):
            return f"exp c{body}"
        case Call(kind, attr, _, args):
            options = f"[{' '.join(map(_attr, attr))}]" if attr else ""
            return f"{kind}{options} {' '.join(f'c{arg}' for arg in args)}"


def _number(number: Fraction) -> str:
    return str(number) if number.denominator <= 4096 else f"{float(number):g}"


def _power(c: int, exponent: Fraction) -> str:
    return f"c{c}" if exponent == 1 else f"c{c}^{exponent}"


def _attr(attr: Attr) -> str:
    return "(" + " ".join(map(_attr, attr)) + ")" if isinstance(attr, tuple) else str(attr)


def _heading(found: Exploration, c: int) -> str:
    return f"c{c} [{', '.join(found.egraph.names(found.egraph.mask(c)))}]"


def _written(found: Exploration) -> dict[int, list[int]]:
    out: dict[int, list[int]] = {}
    for position, c in enumerate(found.converted.classes):
        out.setdefault(c, []).append(position)
    return out


def _classes(found: Exploration) -> list[dict[str, object]]:
    written = _written(found)
    return [
        {
            "class": f"c{c}",
            "axes": list(found.egraph.names(entry.mask)),
            "stored": found.storable(entry.mask),
            "operations": [f"%{position} {found.graph.ops[position].kind}" for position in written.get(c, [])],
            "forms": [form_text(found, node) for node in entry.nodes],
        }
        for c, entry in enumerate(found.egraph.classes)
    ]
