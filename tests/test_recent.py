"""A mapping that keeps what was used last, against one that is kept as a list of uses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cleave.recent import Recent


@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40), st.sets(st.integers(0, 6), max_size=3))
def test_what_was_used_last_is_kept(most: int, uses: list[tuple[bool, int]], held: set[int]) -> None:
    """Values are the numbers of their uses; those of the keys `held` stay."""
    recent: Recent[int, tuple[int, int]] = Recent(most)
    order: list[tuple[int, tuple[int, int]]] = []
    let_go = 0
    for number, (puts, key) in enumerate(uses):
        known = dict(order).get(key)
        if not puts:
            assert recent.get(key) == known
            if known is not None:
                order.remove((key, known))
                order.append((key, known))
            continue
        gone = [known] if known is not None else []
        order = [entry for entry in order if entry[0] != key]
        while len(order) >= most and any(entry[0] not in held for entry in order):
            oldest = next(entry for entry in order if entry[0] not in held)
            order.remove(oldest)
            gone.append(oldest[1])
            let_go += 1
        order.append((key, (key, number)))
        assert recent.put(key, (key, number), lambda value: value[0] in held) == gone
        assert recent.values() == [value for _, value in order] and len(recent) == len(order)
    assert recent.let_go == let_go
