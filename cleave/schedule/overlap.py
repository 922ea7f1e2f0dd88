"""
Launches that overlap: a kernel begins while the one before it still runs, and waits before it touches what that one works on.

    launch sums(x, s)             ->   launch sums(x, s)                sums: release; ...
    launch scaled(x, w, s, y)          launch scaled(x, w, s, y) early  scaled: acc = sum_k x . w; wait; load s; store y

Only a launch right after another overlaps with it. It waits in every program, at the end if nowhere before, so that its own end tells
that all launches before it ended. Before the wait stands all of the body that neither reads what a launch before stores, nor stores to
what one uses, nor depends on such statements: it is done beside the launch before, such as a product of inputs that is scaled after.
With `release` the launch before lets the next one begin as soon as all its own programs have begun, else when they end.

A program of a persistent kernel waits before its first tile: what follows the wait of one tile may be loaded ahead while the one before is
computed, which is not ahead of the wait only where that is before all tiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

from .hazards import reads, results
from .program import Allocate, Kernel, Last, Launch, Load, Program, Release, Statement, Step, Store, Wait, walk


def may_overlap(program: Program) -> bool:
    """Whether a launch comes right after another."""
    steps = [step for step in program.steps if not isinstance(step, Allocate)]
    return any(isinstance(step, Launch) and isinstance(before, Launch) for before, step in itertools.pairwise(steps))


def overlapped(program: Program, release: bool) -> Program:
    """The program with launches that overlap where one comes right after another. Each kernel must be launched once."""
    kernels = {kernel.name: kernel for kernel in program.kernels}
    steps: list[Step] = []
    before: Launch | None = None
    used: dict[str, bool] = {}
    for step in program.steps:
        if isinstance(step, Allocate):
            steps.append(step)
            continue
        if not isinstance(step, Launch):
            before, used = None, {}
            steps.append(step)
            continue
        kernel = kernels[step.kernel]
        names = {own.name: given for own, given in zip(kernel.buffers, step.buffers, strict=True)}
        if before is not None:
            step = replace(step, early=True)
            kernels[step.kernel] = replace(kernel, body=_waiting(kernel, names, used))
            if release:
                first = kernels[before.kernel]
                kernels[before.kernel] = replace(first, body=(Release(), *first.body))
        else:
            used = {}
        used = used | {given: used.get(given, False) or own in kernel.written for own, given in names.items()}
        before = step
        steps.append(step)
    return replace(program, kernels=tuple(kernels[kernel.name] for kernel in program.kernels), steps=tuple(steps))


def _waiting(kernel: Kernel, names: Mapping[str, str], used: Mapping[str, bool]) -> tuple[Statement, ...]:
    """
    The body with a wait, and before it what does not need it. `names` are the buffers that the kernel's own stand for, of which two may be
    one; `used` are those that launches before use, True for those that they store to.
    """
    if kernel.persistent:
        return (Wait(), *kernel.body)
    free: list[Statement] = []
    held: list[Statement] = []
    made: set[int] = set()
    memory = dict(used)
    for statement in kernel.body:
        inner = list(walk((statement,)))
        accesses = [(names[name], stored) for each in inner for name, stored in _accesses(each)]
        if any(id(var) in made for each in inner for var in reads(each)) or any(_needs(name, stored, memory) for name, stored in accesses):
            held.append(statement)
            made.update(id(var) for var in results(statement))
            for name, stored in accesses:
                memory[name] = memory.get(name, False) or stored
        else:
            free.append(statement)
    return (*free, Wait(), *held)


def _needs(name: str, stored: bool, memory: Mapping[str, bool]) -> bool:
    """Whether what loads from a buffer or stores to it must come after those that use `memory`, True for what they store to."""
    return name in memory and (stored or memory[name])


def _accesses(statement: Statement) -> tuple[tuple[str, bool], ...]:
    """The buffer that a statement itself uses, and whether it stores to it."""
    match statement:
        case Load(buffer=buffer):
            return ((buffer.name, False),)
        case Store(buffer=buffer) | Last(counter=buffer):
            return ((buffer.name, True),)
        case _:
            return ()
