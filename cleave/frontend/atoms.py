"""
Atoms: what the dimensions of tensors are made of, and when two of them are the same axis.

An atom has an extent. Two atoms become one by *union*, one becomes two (outer, inner) by *split*; both act wherever the atom
occurs, so a reshape of one tensor refines the axes of all. Atoms of one layout, or of one operation's iteration space, are
kept *apart*: they are different axes although they may be equally long, and can never become one. Sizes being equal is never
a reason for a union; an operation that pairs two dimensions is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .sizes import Size, equal, quotient


class Atom:
    """
    A piece of a dimension. Compared by identity; what it stands for now is found through `Atoms`.

    `hint` is for naming: a letter, or the role in a product (batch, row, column, sum).
    """

    __slots__ = ("apart", "extent", "hint", "kids", "number", "parent")

    def __init__(self, number: int, extent: Size, hint: str) -> None:
        self.number = number
        self.extent = extent
        self.hint = hint
        self.parent: Atom | None = None
        self.kids: tuple[Atom, Atom] | None = None
        self.apart: dict[Atom, None] = {}

    def __repr__(self) -> str:
        return f"a{self.number}[{self.extent}]"


Dim = tuple[Atom, ...]
"""A dimension: its atoms, outermost first. A dimension of size 1 has none."""


class Atoms:
    """All atoms of one program. Changes made inside `match` and `attempt` are undone when they fail."""

    def __init__(self) -> None:
        self._count = 0
        self._undo: list[Callable[[], object]] = []
        self._depth = 0

    def fresh(self, extent: Size, hint: str = "") -> Atom:
        """A new atom, apart from none yet."""
        self._count += 1
        return Atom(self._count - 1, extent, hint)

    def dim(self, size: Size, hint: str = "") -> Dim:
        """A dimension of that size: one new atom, or none for size 1."""
        return () if size == 1 else (self.fresh(size, hint),)

    def find(self, atom: Atom) -> Atom:
        """The atom that stands for this one since its unions."""
        while atom.parent is not None:
            atom = atom.parent
        return atom

    def leaves(self, dim: Iterable[Atom]) -> Dim:
        """The unsplit atoms that a dimension is made of now."""
        out: list[Atom] = []
        stack = list(dim)[::-1]
        while stack:
            atom = self.find(stack.pop())
            if atom.kids is None:
                out.append(atom)
            else:
                stack += [atom.kids[1], atom.kids[0]]
        return tuple(out)

    def separate(self, atoms: Iterable[Atom]) -> None:
        """Keeps the atoms apart, each from each."""
        leaves = self.leaves(atoms)
        assert len(set(leaves)) == len(leaves), f"one axis twice in one layout: {leaves}"
        for i, a in enumerate(leaves):
            for b in leaves[:i]:
                self._mark(a, b)

    def are_apart(self, a: Atom, b: Atom) -> bool:
        """Whether two leaves must stay different axes."""
        return any(self.find(other) is b for other in a.apart)

    def split(self, atom: Atom, outer: Size, inner: Size) -> tuple[Atom, Atom]:
        """Splits a leaf everywhere. The kids are apart from each other and from all that the atom was apart from."""
        assert atom.kids is None and atom.parent is None, "only a leaf can be split"
        role = atom.hint if len(atom.hint) > 1 else "batch" if atom.hint in ("b", "h", "g") else ""
        kids = (self.fresh(outer, atom.hint), self.fresh(inner, role))
        for other in self.leaves(tuple(atom.apart)):
            for kid in kids:
                self._mark(kid, other)
        self._mark(*kids)
        atom.kids = kids
        self._log(lambda: setattr(atom, "kids", None))
        return kids

    def match(self, target: Sequence[Atom], dim: Sequence[Atom]) -> bool:
        """Makes two dimensions one, leaf by leaf, splitting the longer leaf where one is a multiple of the other; or changes nothing."""
        return self.attempt(lambda: self._match(target, dim))

    def attempt(self, change: Callable[[], bool]) -> bool:
        """Runs a change that may fail half way; then everything is as before."""
        mark = len(self._undo)
        self._depth += 1
        done = change()
        self._depth -= 1
        if not done:
            while len(self._undo) > mark:
                self._undo.pop()()
        if self._depth == 0:
            self._undo.clear()
        return done

    def align(self, a: Sequence[Atom], b: Sequence[Atom]) -> list[tuple[Atom, Atom]] | None:
        """Splits two dimensions until their leaves pair up by extent, without uniting them. None, and no change, where they cannot."""
        pairs: list[tuple[Atom, Atom]] = []

        def change() -> bool:
            pairs.clear()
            found = self._paired(a, b, unite=False)
            pairs.extend(found or ())
            return found is not None

        return pairs if self.attempt(change) else None

    def _match(self, target: Sequence[Atom], dim: Sequence[Atom]) -> bool:
        return self._paired(target, dim, unite=True) is not None

    def _paired(self, a: Sequence[Atom], b: Sequence[Atom], *, unite: bool) -> list[tuple[Atom, Atom]] | None:
        done = 0
        while True:
            # A split changes leaves on both sides, so they are read again from the start.
            left, right = self.leaves(a), self.leaves(b)
            if done == len(left) or done == len(right):
                return list(zip(left, right, strict=True)) if len(left) == len(right) else None
            x, y = left[done], right[done]
            if x is y:
                done += 1
            elif equal(x.extent, y.extent):
                if unite and not self._unite(x, y):
                    return None
                done += 1
            elif (ratio := quotient(x.extent, y.extent)) is not None:
                self.split(x, y.extent, ratio)
            elif (ratio := quotient(y.extent, x.extent)) is not None:
                self.split(y, x.extent, ratio)
            else:
                return None

    def _unite(self, kept: Atom, gone: Atom) -> bool:
        if self.are_apart(kept, gone):
            return False
        for other in self.leaves(tuple(gone.apart)):
            self._mark(kept, other)
        gone.parent = kept
        self._log(lambda: setattr(gone, "parent", None))
        if not kept.hint and gone.hint:
            kept.hint = gone.hint
            self._log(lambda: setattr(kept, "hint", ""))
        return True

    def _mark(self, a: Atom, b: Atom) -> None:
        for one, other in ((a, b), (b, a)):
            if other not in one.apart:
                one.apart[other] = None
                self._log(lambda one=one, other=other: one.apart.pop(other))

    def _log(self, undo: Callable[[], object]) -> None:
        if self._depth:
            self._undo.append(undo)
