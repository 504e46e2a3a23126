"""Payloads of states: compressed where it pays, and read as they were written."""

import os
import zlib
from dataclasses import replace

import pytest
from tidegauge.analyzers.core.errors import CorruptStateError
from tidegauge.analyzers.core.state import State, register_state
from tidegauge.repository.store.artifacts import Artifacts, Payload


@register_state("text-of-tests/1")
class Text(State):
    """A state that is nothing but its bytes."""

    __slots__ = ("text",)

    def __init__(self, text=b""):
        object.__setattr__(self, "text", text)

    def combine(self, other):
        return type(self)(self.text + other.text)

    def pack(self):
        return self.text

    @classmethod
    def unpack(cls, payload):
        return cls(payload)


HERE = Artifacts(None)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (b"", "text-of-tests/1"),
        (b"0" * 255, "text-of-tests/1"),  # too little to gain
        (b"0" * 256, "text-of-tests/1+zlib"),
        (os.urandom(4096), "text-of-tests/1"),  # which does not shrink
    ],
    ids=["empty", "small", "repetitive", "random"],
)
def test_states_are_compressed_where_it_pays(text, tag):
    packed = HERE.pack(Text(text))
    assert packed.tag == tag
    assert len(packed.payload) <= len(text)
    assert HERE.unpack(packed).text == text


def test_uncompressed_states_of_before_are_read():
    text = b"0" * 4096
    packed = HERE.pack(Text(text))
    before = Payload("text-of-tests/1", text, None, packed.checksum)
    assert HERE.unpack(before).text == text  # under the checksum of the same state


@pytest.mark.parametrize(
    "damage", [lambda p: p[:-1], lambda p: b"x" + p, lambda _: zlib.compress(b"1")]
)
def test_damaged_bytes_are_found(damage):
    packed = HERE.pack(Text(b"0" * 4096))
    with pytest.raises(CorruptStateError, match="checksum differs"):
        HERE.unpack(replace(packed, payload=damage(packed.payload)))
