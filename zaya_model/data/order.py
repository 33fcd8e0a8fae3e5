"""A shuffled order that needs no memory: the place of any sample, computed from the seed alone."""

import numpy as np

_ROUNDS = 4


def shuffled(numbers: np.ndarray, size: int, *key: int) -> np.ndarray:
    """Send numbers below `size` to numbers below `size`, each to another one, in an order that `key` decides.

    A Feistel network permutes the next power of four; what falls outside walks on until it is inside (Black and
    Rogaway 2002, "cycle walking"). A permutation in memory would take 8 bytes for each of billions of sequences.
    """
    half_bits = max(1, (max(1, size - 1).bit_length() + 1) // 2)
    round_keys = np.random.default_rng(key).integers(0, 2**63, size=_ROUNDS, dtype=np.uint64)
    found = _permute(numbers.astype(np.uint64), half_bits, round_keys)
    while (outside := found >= size).any():
        found[outside] = _permute(found[outside], half_bits, round_keys)
    return found.astype(np.int64)


def _permute(numbers: np.ndarray, half_bits: int, round_keys: np.ndarray) -> np.ndarray:
    bits, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = numbers >> bits, numbers & mask
    for round_key in round_keys:
        left, right = right, left ^ (_scramble(right ^ round_key) & mask)
    return (left << bits) | right


def _scramble(x: np.ndarray) -> np.ndarray:
    """Mix all bits into all bits (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
