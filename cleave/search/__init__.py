"""
The algebra search: equivalent programs for a graph, found without pattern knowledge of any workload.

Reading order: fields, pieces (of axes), values (what a program computes) with draws, measure, arithmetic, order and moves, meaning
(of each operation), egraph (classes of equal values), convert, rules, movement, closure, freedom, explore, work, edges,
extraction, candidates, emit, scales, verify, reals, regimes, split, chunk_order, segments, workers, watch, api; beside them
dimensions, multiples and enumerate.
Nothing here knows any IR.
"""

from .api import Alternative, SearchOptions, SearchResult, superoptimize

__all__ = ["Alternative", "SearchOptions", "SearchResult", "superoptimize"]
