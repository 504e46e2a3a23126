"""Payloads of states: compressed where it pays, and read back unchanged."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from datasketches import kll_doubles_sketch

from tidegauge.analyzers.core.errors import CorruptStateError
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.measures.quantiles import KllState
from tidegauge.repository.store.stored_states import Artifacts, Payload

HERE = Artifacts(None)


def sketch(values):
    made = kll_doubles_sketch(200)
    made.update(np.array(values, float))
    return KllState(made.serialize())


def noise():
    draw = np.random.default_rng(7)
    return draw.normal(size=1000) * 10.0 ** draw.uniform(-300, 300, 1000)


@pytest.mark.parametrize(
    ("state", "tag"),
    [
        (KllState(), "kll/1"),
        (NumMatches(3), "num-matches/1"),  # too small to gain
        (sketch([0.0] * 1000), "kll/1+zlib"),
        (sketch(noise()), "kll/1"),  # does not shrink
    ],
    ids=["empty", "small", "repetitive", "random"],
)
def test_states_are_compressed_where_it_pays(state, tag):
    packed = HERE.pack(state)
    assert packed.tag == tag
    assert len(packed.payload) <= len(state.pack())
    assert HERE.unpack(packed) == state


def test_states_of_equal_values_take_a_tenth():
    state = sketch([0.0] * 1000)
    assert len(HERE.pack(state).payload) < len(state.pack()) / 10


def test_uncompressed_states_of_older_releases_are_read():
    state = sketch([0.0] * 1000)
    before = Payload("kll/1", state.pack(), None, HERE.pack(state).checksum)
    assert HERE.unpack(before) == state  # with the same checksum


@pytest.mark.parametrize(
    "damage",
    [
        lambda p: p[:-1],
        lambda p: b"x" + p,
        lambda _: zlib.compress(b"1"),
        lambda _: zlib.compress(bytes(1 << 26)),  # 64 MiB of which only the beginning is written
    ],
)
def test_damaged_bytes_are_detected(damage):
    packed = HERE.pack(sketch([0.0] * 1000))
    with pytest.raises(CorruptStateError, match="checksum differs"):
        HERE.unpack(replace(packed, payload=damage(packed.payload)))
