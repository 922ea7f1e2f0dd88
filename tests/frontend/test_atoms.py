"""Laws of atoms under random unions and splits: sizes stay, what is kept apart stays apart, and what fails changes nothing."""

from __future__ import annotations

import math
import random

from cleave.frontend.atoms import Atoms, Dim
from cleave.frontend.sizes import Size

SIZES = (2, 3, 4, 6, 8, 12, 24, 5)


def size_of(extents: list[Size]) -> int:
    return math.prod(int(extent) for extent in extents)


class Layouts:
    """Tensors of random dimensions, and everything that can be seen of them."""

    def __init__(self, draw: random.Random) -> None:
        self.atoms = Atoms()
        self.draw = draw
        self.sizes = [[draw.choice(SIZES) for _ in range(draw.randint(1, 4))] for _ in range(4)]
        self.tensors: list[list[Dim]] = [[self.atoms.dim(size, draw.choice(("", "b"))) for size in sizes] for sizes in self.sizes]
        for tensor in self.tensors:
            self.atoms.separate(atom for dim in tensor for atom in dim)

    def leaves(self, tensor: list[Dim]) -> Dim:
        return tuple(leaf for dim in tensor for leaf in self.atoms.leaves(dim))

    def seen(self) -> tuple[object, ...]:
        every = list(dict.fromkeys(leaf for tensor in self.tensors for leaf in self.leaves(tensor)))
        apart = tuple(self.atoms.are_apart(one, other) for one in every for other in every)
        return tuple(self.leaves(tensor) for tensor in self.tensors), apart, tuple(leaf.hint for leaf in every)

    def check(self) -> None:
        for sizes, tensor in zip(self.sizes, self.tensors, strict=True):
            for size, dim in zip(sizes, tensor, strict=True):
                assert size_of([leaf.extent for leaf in self.atoms.leaves(dim)]) == size
            leaves = self.leaves(tensor)
            assert len(set(leaves)) == len(leaves)
            assert all(self.atoms.are_apart(one, other) for one in leaves for other in leaves if one is not other)

    def dim(self) -> Dim:
        tensor = self.draw.choice(self.tensors)
        first = self.draw.randrange(len(tensor))
        # Dimensions that were merged are one of several atoms.
        return tuple(atom for dim in tensor[first : first + self.draw.choice((1, 1, 2))] for atom in dim)

    def fail(self) -> bool:
        for _ in range(3):
            self.atoms.match(self.dim(), self.dim())
        return False


def test_a_dimension_matches_whatever_it_is_the_product_of() -> None:
    for parts in ((24,), (2, 12), (12, 2), (2, 3, 4), (4, 3, 2), (3, 8), (6, 4), (2, 2, 2, 3)):
        for swapped in (False, True):
            atoms = Atoms()
            whole = atoms.dim(24)
            pieces = tuple(atom for size in parts for atom in atoms.dim(size))
            assert atoms.match(*((pieces, whole) if swapped else (whole, pieces)))
            assert [leaf.extent for leaf in atoms.leaves(whole)] == list(parts)
            assert atoms.leaves(whole) == atoms.leaves(pieces)
    assert not atoms.match(atoms.dim(6), atoms.dim(4))


def test_random_matches_and_alignments() -> None:
    done = {"match": 0, "align": 0, "failed": 0, "undone": 0}
    for seed in range(300):
        world = Layouts(random.Random(seed))
        for _ in range(8):
            a, b, before = world.dim(), world.dim(), world.seen()
            kind = world.draw.choice(("match", "align", "attempt"))
            if kind == "match":
                worked = world.atoms.match(a, b)
                assert not worked or world.atoms.leaves(a) == world.atoms.leaves(b)
            elif kind == "align":
                known = world.atoms.leaves(a) == world.atoms.leaves(b)
                pairs = world.atoms.align(a, b)
                worked = pairs is not None
                if pairs is not None:
                    assert [one for one, _ in pairs] == list(world.atoms.leaves(a))
                    assert [other for _, other in pairs] == list(world.atoms.leaves(b))
                    assert all(one.extent == other.extent for one, other in pairs)
                    assert known == all(one is other for one, other in pairs)
            else:
                # What worked within an attempt that fails in the end is undone with it.
                worked = world.atoms.attempt(world.fail)
                done["undone"] += 1
            done["match" if kind == "match" and worked else "align" if worked else "failed"] += 1
            if not worked:
                assert world.seen() == before
            world.check()
    assert min(done.values()) > 100
