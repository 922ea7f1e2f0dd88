"""Modules inside of a module: a file of several, as `cleave-opt --split-input-file` writes it, reads as one that holds them."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from .errors import CleaveError


def modules_of(module: ModuleOp) -> tuple[ModuleOp, ...]:
    """The modules of what was read from a file: those that it holds where it holds nothing else, or itself."""
    inner = tuple(op for op in module.ops if isinstance(op, ModuleOp))
    return inner if inner and len(inner) == len(module.ops) else (module,)


def check_single(module: ModuleOp) -> None:
    """Raises: CleaveError for modules inside of a module, as each has its own programs and kernels, which may share names."""
    inner = [op for op in module.ops if isinstance(op, ModuleOp)]
    if inner:
        found = f"{len(inner)} modules are inside of a module" if len(inner) > 1 else "the module is inside of another"
        advice = "put each into a file of its own, or lines // ----- between them for cleave-opt --split-input-file"
        raise CleaveError(inner[0], f"{found}, and one at a time is taken", advice)
