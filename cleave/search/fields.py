"""
Prime fields: the towers of primes, powers, exponentials and discrete logarithms on arrays of residues, keyed hashing.

The law: in a tower p_{i+1} = k p_i + 1, so the multiplicative group of each field has a subgroup of order p_i, and x -> g^x
with g of that order is a homomorphism from the sums modulo p_i to the products modulo p_{i+1}. All primes are below 2^31:
products of residues are exact in int64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]

SHORT_TOWER = (430004411, 860008823, 1720017647)
LOG_TOWER = (2100011, 4200023, 8400047)
LONG_TOWER = (62972249, 125944499, 251888999, 503777999, 1007555999, 2015111999)
_MIX_A, _MIX_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def digest(text: str) -> int:
    """A 64-bit hash of text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def mix(h: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finaliser."""
    h = (h ^ (h >> np.uint64(30))) * _MIX_A
    h = (h ^ (h >> np.uint64(27))) * _MIX_B
    return h ^ (h >> np.uint64(31))


def power(base: Ints, exponents: Sequence[int], primes: Ints) -> Ints:
    """`base ** exponent` by repeated squaring, with an exponent for every level; level 0 is the first axis."""
    out = np.ones_like(base)
    same = len(set(exponents)) == 1
    for bit in range(max(exponents).bit_length()):
        if not same:
            taken = np.array([exponent >> bit & 1 for exponent in exponents], bool).reshape((-1,) + (1,) * (base.ndim - 1))
            out = np.where(taken, out * base % primes, out)
        elif exponents[0] >> bit & 1:
            out = out * base % primes
        base = base * base % primes
    return out


@lru_cache(maxsize=64)
def generator_table(prime: int, order: int) -> Ints:
    """Powers of an arbitrary element of the given order: row k holds g^(j 256^k) for j in 0..255."""
    cofactor = (prime - 1) // order
    draw = digest(f"generator {prime}") % (prime - 3) + 2
    while pow(draw, cofactor, prime) == 1:
        draw += 1
    step = pow(draw, cofactor, prime)
    table = np.empty((4, 256), np.int64)
    for k in range(4):
        entry = 1
        for j in range(256):
            table[k, j] = entry
            entry = entry * step % prime
        step = entry
    return table


@lru_cache(maxsize=16)
def _logarithm_table(prime: int, order: int) -> tuple[Ints, Ints, int, int]:
    """Baby steps for the discrete logarithm: sorted powers, their exponents, the number of steps and g^-steps."""
    base = int(generator_table(prime, order)[0, 1])
    bits = order.bit_length() // 2 + 4
    powers = np.ones(1, np.int64)
    for k in range(bits):
        powers = np.concatenate([powers, powers * pow(base, 1 << k, prime) % prime])
    exponents = np.argsort(powers, kind="stable")
    return powers[exponents], exponents, 1 << bits, pow(pow(base, 1 << bits, prime), prime - 2, prime)


def discrete_logarithm(residues: Ints, prime: int, order: int) -> Ints:
    """Exponents e with g^e = residues, which must lie in the subgroup of that order (baby steps, giant steps)."""
    flat = np.ascontiguousarray(residues)
    return np.frombuffer(_logarithms(flat.tobytes(), prime, order), np.int64).reshape(residues.shape)


@lru_cache(maxsize=1024)
def _logarithms(residues: bytes, prime: int, order: int) -> bytes:
    powers, exponents, steps, stride = _logarithm_table(prime, order)
    current = np.frombuffer(residues, np.int64).copy()
    out = np.full(current.shape, -1, np.int64)
    unknown = np.arange(current.size)
    for giant in range(order // steps + 1):
        found = np.minimum(np.searchsorted(powers, current[unknown]), powers.size - 1)
        hit = powers[found] == current[unknown]
        out[unknown[hit]] = exponents[found[hit]] + giant * steps
        unknown = unknown[~hit]
        if not unknown.size:
            break
        current[unknown] = current[unknown] * stride % prime
    return (out % order).tobytes()
