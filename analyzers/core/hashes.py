"""Hashes of values, computed with NumPy: Spark's `xxhash64`, the identifying longs of `Field.hash_sql`, MurmurHash3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_SEED = 42
"""Spark's seed of ``xxhash64``."""
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
"""The five primes of xxHash64 (Collet)."""
_STRIPE_BYTES = 32
_LONG_LIMIT = 2.0**63


def _primes() -> list[np.uint64]:
    import numpy as np

    return [np.uint64(prime) for prime in _PRIMES]


def _rotated(words: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint64]:
    import numpy as np

    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _finished(h: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    import numpy as np

    _, p2, p3, *_ = _primes()
    h = (h ^ (h >> np.uint64(33))) * p2
    h = (h ^ (h >> np.uint64(29))) * p3
    return (h ^ (h >> np.uint64(32))).view(np.int64)


def _with_word(h: npt.NDArray[np.uint64], word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Add eight bytes to a hash."""
    p1, p2, _, p4, _ = _primes()
    return _rotated(h ^ (_rotated(word * p2, 31) * p1), 27) * p1 + p4


def _with_half(h: npt.NDArray[np.uint64], half: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Add four bytes to a hash."""
    p1, p2, p3, *_ = _primes()
    return _rotated(h ^ (half * p1), 23) * p2 + p3


def _start(count: int, length: int) -> npt.NDArray[np.uint64]:
    import numpy as np

    return np.full(count, (_SEED + _PRIMES[4] + length) % 2**64, np.uint64)


def hash_longs(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return ``xxhash64`` of longs or, in microseconds, of timestamps.

    Examples
    --------
    >>> import numpy as np
    >>> hash_longs(np.array([1])).tolist()
    [-7001672635703045582]
    """
    import numpy as np

    return _finished(_with_word(_start(len(values), 8), values.view(np.uint64)))


def hash_integers(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return ``xxhash64`` of integers or, in days, of dates."""
    import numpy as np

    return _finished(_with_half(_start(len(values), 4), values.view(np.uint32).astype(np.uint64)))


def hash_doubles(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the longs that identify doubles: whole numbers within 64 bits as such, and hashes of all others."""
    import numpy as np

    is_nan = np.isnan(values)
    bits = np.where(is_nan, np.nan, values).astype(np.float64).view(np.int64)
    hashes = hash_longs(bits)
    with np.errstate(invalid="ignore"):
        is_whole = (values == np.trunc(values)) & (abs(values) <= _LONG_LIMIT)
        in_range = np.where(is_whole & (values < _LONG_LIMIT), values, 0.0).astype(np.int64)
    integers = np.where(values == _LONG_LIMIT, 2**63 - 1, in_range)  # as Spark's cast
    return np.where(is_whole, integers, hashes)


def hash_strings(strings: pa.Array) -> npt.NDArray[np.int64]:
    """Return ``xxhash64`` of strings without nulls.

    Examples
    --------
    >>> import pyarrow as pa
    >>> hash_strings(pa.array(["", "Spark"])).tolist()
    [-7444071767201028348, -4294468057691064905]
    """
    import numpy as np
    import pyarrow as pa

    strings = strings.cast(pa.large_string())
    _, offset_buffer, data_buffer = strings.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)
    offsets = offsets[strings.offset : strings.offset + len(strings) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = np.empty(len(strings), np.int64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _hash_bytes(data, starts[rows], length)
    return hashes


def _hash_bytes(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], length: int
) -> npt.NDArray[np.int64]:
    """Return ``xxhash64`` of strings of equal length that begin at some positions of the data."""
    import numpy as np

    p1, p2, _, p4, p5 = _primes()
    count = len(starts)

    def numbers(offset: int, kind: str) -> npt.NDArray[np.uint64]:
        """Return the number at an offset of each string; the view has one at each byte of the data."""
        shape = (len(data) - np.dtype(kind).itemsize + 1,)
        view: npt.NDArray[Any] = np.ndarray(shape, kind, data.data, strides=(1,))
        return view[starts + offset].astype(np.uint64)

    at = length - length % _STRIPE_BYTES
    if at:
        seeds = (_SEED + _PRIMES[0] + _PRIMES[1], _SEED + _PRIMES[1], _SEED, _SEED - _PRIMES[0])
        lanes = [np.full(count, seed % 2**64, np.uint64) for seed in seeds]
        for i in range(at // 8):
            lanes[i % 4] = _rotated(lanes[i % 4] + numbers(8 * i, "<u8") * p2, 31) * p1
        h = sum(
            (_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)),
            np.zeros(count, np.uint64),
        )
        for lane in lanes:
            h = (h ^ (_rotated(lane * p2, 31) * p1)) * p1 + p4
        h = h + np.uint64(length)
    else:
        h = _start(count, length)
    while at + 8 <= length:
        h = _with_word(h, numbers(at, "<u8"))
        at += 8
    if at + 4 <= length:
        h = _with_half(h, numbers(at, "<u4"))
        at += 4
    for i in range(at, length):
        h = _rotated(h ^ (numbers(i, "u1") * p5), 11) * p1
    return _finished(h)


_SKETCH_SEED = 9001
"""Seed of MurmurHash3 in Apache DataSketches."""


def murmur_hashes(
    values: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return both halves of MurmurHash3 (x64, 128 bits; Appleby) of longs, as Apache DataSketches hashes them.

    Examples
    --------
    >>> import numpy as np
    >>> [half.tolist() for half in murmur_hashes(np.array([1]))]
    [[811507182322053675], [16783237272830240613]]
    """
    import numpy as np

    def mixed(h: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
        return h ^ (h >> np.uint64(33))

    seed, length = np.uint64(_SKETCH_SEED), np.uint64(8)
    k = _rotated(values.view(np.uint64) * np.uint64(0x87C37B91114253D5), 31)
    start = (seed ^ (k * np.uint64(0x4CF5AD432745937F))) ^ length
    start = start + (seed ^ length)
    h1, h2 = mixed(start), mixed(start + (seed ^ length))
    return h1 + h2, h1 + h2 + h2
