"""Philox against its published answers, and against the algorithm in Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.backend.philox import philox_4x32, random_words, split_64

# kat_vectors of Random123 1.14, lines "philox4x32 10": counter, key, answer.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
VERSIONS = [random_words.plain, random_words.fused]
U64 = st.integers(0, 2**64 - 1)


def words_of(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def reference(counter: list[int], key: list[int]) -> list[int]:
    """Salmon et al., section 3.3, one block at a time."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter: str, key: str, answer: str) -> None:
    assert reference(words_of(counter), words_of(key)) == words_of(answer)
    arrays = tuple(np.array([word], np.uint64) for word in words_of(counter))
    block = philox_4x32(arrays, tuple(words_of(key)))
    assert [int(word[0]) for word in block] == words_of(answer)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_block_is_the_first_known_answer(version: object) -> None:
    assert version(None, 4, seed=0, stream=0, start=0).tolist() == words_of(KNOWN[0][2])


@pytest.mark.parametrize("version", VERSIONS)
@given(seed=U64, stream=U64, start=st.integers(0, 2**62), count=st.integers(0, 23))
def test_words_are_lanes_of_blocks(version: object, seed: int, stream: int, start: int, count: int) -> None:
    expected = []
    for i in range(start, start + count):
        counter = [*split_64(i // 4), *split_64(stream)]
        expected.append(reference(counter, list(split_64(seed)))[i % 4])
    words = version(None, count, seed, stream, start)
    assert words.dtype == np.uint32
    assert words.tolist() == expected


@pytest.mark.parametrize("start", [0, 1, 2, 3, 510, 511, 2**31 - 3, 2**34 - 2])
@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 2050])
def test_fused_words_are_the_formula(start: int, count: int) -> None:
    np.testing.assert_array_equal(
        random_words.fused(None, count, 5, 2**63, start), random_words.plain(None, count, 5, 2**63, start)
    )


def test_negative_seeds_wrap() -> None:
    np.testing.assert_array_equal(
        random_words(None, 8, -1, -2, 0), random_words(None, 8, 2**64 - 1, 2**64 - 2, 0)
    )
    assert split_64(-1) == (2**32 - 1, 2**32 - 1)
