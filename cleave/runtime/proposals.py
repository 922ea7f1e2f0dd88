"""
What is worth trying next, from what was timed: trials that put together, vary or adopt what turned out fast.

The candidates given are those that were timed and may be chosen, `known` all that were put together, dropped ones too.
"""

from __future__ import annotations

from collections.abc import Sequence

from cleave.runtime.candidates import Candidate, Space
from cleave.schedule.candidates import Trial

OVERLAP_GAIN, MOST_OVERLAPPED = 1.25, 4
"""How much slower than the best a candidate may be to be tried with launches that overlap, and how many are."""

STREAMED = 4
"""How many of the fastest are tried with launches that stream."""

REFINED = 8
"""How many ways of each kernel of the best candidate are timed at least."""

MOST_REORDERED = 4
"""How many orders of the tiles of the best candidate are tried."""

ADOPTING, ADOPTED, MOST_ADOPTED = 1.15, 2, 8
"""
How much slower than the best a division may be to try ways that faster ones run their kernels in, how many for each kernel, and how many in
all.
"""


def combined(space: Space, timed: Sequence[Candidate]) -> list[Trial]:
    """For each division of several kernels the fastest way of each kernel together."""
    out: list[Trial] = []
    for own in _by_division(timed):
        best = min(own, key=time_of)
        picks = list(best.trial.picks)
        for place in range(len(picks)):
            # Where nothing else differs, times tell which way of this kernel is best.
            alike: dict[tuple[int, ...], list[Candidate]] = {}
            for state in own:
                alike.setdefault((*state.trial.picks[:place], *state.trial.picks[place + 1 :]), []).append(state)
            fastest = (min(group, key=time_of) for group in alike.values() if len(group) > 1)
            picks[place] = min(fastest, key=time_of, default=best).trial.picks[place]
        division = best.trial.division
        launches = any(not space.called(division, place, pick) for place, pick in enumerate(picks))
        if launches and all(tuple(picks) != state.trial.picks for state in own):
            out.append(space.trial(division, picks))
    return out


def refined(space: Space, timed: Sequence[Candidate], known: Sequence[Candidate]) -> list[Trial]:
    """
    The best candidate of several kernels with each of them run in the ways that the model likes best and that were not timed in its
    division: of the kernels that take little time few were among the first trials.
    """
    best = min(timed, key=time_of).trial if timed else None
    if best is None or len(best.picks) < 2:
        return []
    out: list[Trial] = []
    for place, count in enumerate(space.ways(best.division)):
        tried = _tried(known, best.division, place)
        for pick in [pick for pick in range(min(count, REFINED)) if pick not in tried]:
            out.append(space.trial(best.division, _replaced(best.picks, place, pick)))
    return out


def reordered(space: Space, timed: Sequence[Candidate], known: Sequence[Candidate]) -> list[Trial]:
    """The best candidate with the tiles of a kernel run in other orders, of which few are among the first trials of all tiles."""
    if not timed:
        return []
    best = min(timed, key=time_of).trial
    out: list[Trial] = []
    for place, pick in enumerate(best.picks):
        tried = _tried(known, best.division, place)
        orders = (other for other in space.orders(best.division, place, pick) if other not in tried)
        out += [space.trial(best.division, _replaced(best.picks, place, other)) for other in orders]
    return sorted(out, key=lambda trial: trial.seconds)[:MOST_REORDERED]


def adopted(space: Space, timed: Sequence[Candidate], known: Sequence[Candidate]) -> list[Trial]:
    """
    The best candidate of each division near the best one, with a kernel run as faster candidates of other divisions run one of theirs,
    whether their launches overlap or not: the model's errors are much the same for kernels that are alike, and what was found to be fast
    in one place was not looked at in another. What the fastest do comes first.
    """
    fastest = sorted(timed, key=time_of)
    found: list[tuple[int, Trial]] = []
    for own in _by_division(timed):
        best = min(own, key=time_of)
        if time_of(best) > ADOPTING * time_of(fastest[0]):
            continue
        division = best.trial.division
        faster = [state.trial for state in fastest if time_of(state) < time_of(best) and state.trial.division != division]
        plans = list(dict.fromkeys(plan for trial in faster for plan in _plans(space, trial)))
        for place, count in enumerate(space.ways(division)):
            tried = _tried(known, division, place)
            own_plans = {space.plan(division, place, pick): pick for pick in reversed(range(count)) if pick not in tried}
            picks = [(rank, own_plans[plan]) for rank, plan in enumerate(plans) if plan in own_plans][:ADOPTED]
            found += [(rank, space.trial(division, _replaced(best.trial.picks, place, pick))) for rank, pick in picks]
    return [trial for _, trial in sorted(found, key=lambda entry: entry[0])][:MOST_ADOPTED]


def overlapping(space: Space, timed: Sequence[Candidate]) -> list[Trial]:
    """The fastest candidates of several kernels near the best one, with launches that overlap."""
    ready = sorted((state for state in timed if not state.trial.overlap), key=time_of)
    near = [state for state in ready if time_of(state) <= OVERLAP_GAIN * time_of(ready[0])]
    found = [trials for state in near if (trials := space.overlaps(state.trial))]
    return [trial for trials in found[:MOST_OVERLAPPED] for trial in trials]


def streaming(space: Space, timed: Sequence[Candidate]) -> list[Trial]:
    """The fastest candidates with launches that stream their largest input."""
    fastest = sorted(timed, key=time_of)[:STREAMED]
    return [trial for state in fastest if (trial := space.streams(state.trial)) is not None]


def time_of(state: Candidate) -> float:
    """The seconds that a candidate which was timed takes."""
    assert state.measured is not None, "only what was measured is compared"
    return state.measured


def _by_division(timed: Sequence[Candidate]) -> list[list[Candidate]]:
    """The candidates of each division whose launches do not overlap."""
    ready = [state for state in timed if not state.trial.overlap]
    divisions = sorted({state.trial.division for state in ready})
    return [[state for state in ready if state.trial.division == division] for division in divisions]


def _replaced(picks: Sequence[int], place: int, pick: int) -> tuple[int, ...]:
    """The picks with another in one place."""
    return (*picks[:place], pick, *picks[place + 1 :])


def _tried(known: Sequence[Candidate], division: int, place: int) -> set[int]:
    """In which ways a kernel was run in what there is."""
    return {state.trial.picks[place] for state in known if state.trial.division == division}


def _plans(space: Space, trial: Trial) -> list[str]:
    """How a trial runs the kernels that no library does."""
    ways = [(trial.division, place, pick) for place, pick in enumerate(trial.picks)]
    return [space.plan(*way) for way in ways if not space.called(*way)]
