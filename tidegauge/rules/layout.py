"""Bit layout of rule and fix outcomes: encode, count and decode them.

Each rule has two bits: violated, and unknown. Each arm of a fix has one. They are packed into words
of 62 bits: first the rules on original values, then the fixes, then the rules on repaired values. A
mask is all words concatenated into one integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.requests import CustomRequest
from tidegauge.rules.expressions import KeyLookup
from tidegauge.rules.state import MOST_MASKS, DQMState, RecordCounts
from tidegauge.rules.tasks import DQMFix, DQMRule

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BITS = 62
"""Bits per word; the sign bit and one more stay free."""
VIOLATED, UNKNOWN = 1, 2


@dataclass(frozen=True, slots=True)
class BitTest:
    """Test of bits of a word: any of them is set, or none.

    Attributes
    ----------
    word : int
    bits : int
    any : bool
    """

    word: int
    bits: int
    any: bool

    def sql(self, names: Sequence[str]) -> str:
        """Return the test as Spark SQL over the word columns."""
        return f"({names[self.word]} & {self.bits}L) {'!=' if self.any else '='} 0L"


BitTests = tuple[BitTest, ...]
"""A condition on a record: the conjunction of the tests."""


@dataclass(frozen=True, slots=True)
class BitPosition:
    """Position of a task's bits."""

    word: int
    shift: int

    def bits(self, code: int) -> int:
        """Return the bits of a code, shifted to their position in the word."""
        return code << self.shift


@dataclass(frozen=True, eq=False)
class Tasks:
    """Rules and fixes, in order, with the layout of their bits.

    Attributes
    ----------
    rules : tuple of DQMRule
    fixes : tuple of DQMFix
    """

    rules: tuple[DQMRule, ...] = ()
    fixes: tuple[DQMFix, ...] = ()

    @cached_property
    def identity(self) -> str:
        """Canonical JSON of the tasks; equal tasks have equal texts."""
        of = [task.identity() for task in (*self.rules, *self.fixes)]
        return canonical_json(of)

    @cached_property
    def key(self) -> str:
        """Hash of the identity."""
        return key_of(self.identity)

    def __eq__(self, other: object) -> bool:
        """Compare by identity."""
        return isinstance(other, Tasks) and self.identity == other.identity

    def __hash__(self) -> int:
        """Hash the identity."""
        return hash(self.key)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The other tables in which rules look up keys."""
        pieces = (piece for rule in self.rules for piece in rule.expression.pieces)
        return tuple(dict.fromkeys(p.table for p in pieces if isinstance(p, KeyLookup)))

    @property
    def before(self) -> tuple[DQMRule, ...]:
        """The rules on original values."""
        return tuple(rule for rule in self.rules if rule.stage == "before")

    @property
    def after(self) -> tuple[DQMRule, ...]:
        """The rules on repaired values."""
        return tuple(rule for rule in self.rules if rule.stage == "after")

    @property
    def ordered(self) -> tuple[DQMRule, ...]:
        """The rules in the order of evaluation."""
        return self.before + self.after

    @cached_property
    def places(self) -> dict[str, BitPosition]:
        """Positions of the bits of each rule and fix, by name."""
        places: dict[str, BitPosition] = {}
        word = 0
        sizes = [
            [(rule.name, 2) for rule in self.before],
            [(fix.name, len(fix.arms)) for fix in self.fixes],
            [(rule.name, 2) for rule in self.after],
        ]
        for stage in sizes:
            shift = 0
            for name, size in stage:
                if shift + size > BITS:
                    word, shift = word + 1, 0
                places[name] = BitPosition(word, shift)
                shift += size
            word += 1 if stage else 0
        return places

    @property
    def words(self) -> int:
        """The number of words."""
        return max((place.word for place in self.places.values()), default=-1) + 1

    @property
    def texts(self) -> tuple[str, ...]:
        """The Spark SQL of all conditions and replacements."""
        of_rules = [rule.expression for rule in self.rules]
        of_fixes = [e for fix in self.fixes for arm in fix.arms for e in (arm.condition, arm.value)]
        return tuple(expression.text for expression in of_rules + of_fixes)

    def rejecting_bits(self, rules: Iterable[DQMRule]) -> dict[int, int]:
        """Return the bits that reject a record, by word."""
        found: dict[int, int] = {}
        for rule in rules:
            if rule.rejects:
                place = self.places[rule.name]
                found[place.word] = found.get(place.word, 0) | place.bits(breaking_bits(rule))
        return found

    def kept(self, rules: Iterable[DQMRule]) -> BitTests:
        """Return the condition that none of the given rules rejects a record."""
        return tuple(
            BitTest(word, bits, any=False) for word, bits in self.rejecting_bits(rules).items()
        )

    @cached_property
    def counters(self) -> dict[tuple[str, str], BitTests]:
        """Counters by kind and name, with the condition on the records they count.

        The kinds are records, kept, violated, unknown, charged and fixed. A record is charged to
        the first rule that rejects it; a warning is charged with all records that break it.
        """
        found: dict[tuple[str, str], BitTests] = {
            ("records", ""): (),
            ("kept", ""): self.kept(self.rules),
        }
        earlier: list[DQMRule] = []
        for rule in self.ordered:
            place = self.places[rule.name]
            found["violated", rule.name] = (BitTest(place.word, place.bits(VIOLATED), any=True),)
            found["unknown", rule.name] = (BitTest(place.word, place.bits(UNKNOWN), any=True),)
            broken = BitTest(place.word, place.bits(breaking_bits(rule)), any=True)
            found["charged", rule.name] = (broken, *(self.kept(earlier) if rule.rejects else ()))
            earlier.append(rule)
        for fix in self.fixes:
            place = self.places[fix.name]
            for i, name in enumerate(fix.counters()):
                found["fixed", name] = (BitTest(place.word, place.bits(1 << i), any=True),)
        return found

    def fold(
        self, words: Sequence[npt.NDArray[np.int64]], counts: npt.NDArray[np.int64]
    ) -> RecordCounts:
        """Return the state of records that were counted by their bit words."""
        import numpy as np

        sums = []
        for tests in self.counters.values():
            holds = np.ones(len(counts), dtype=bool)
            for test in tests:
                holds &= ((words[test.word] & test.bits) != 0) == test.any
            sums.append(int(counts[holds].sum()))
        masks: dict[int, int] | None = None
        if len(counts) <= MOST_MASKS:
            masks = {}
            for *parts, count in zip(*(w.tolist() for w in words), counts.tolist(), strict=True):
                mask = sum(part << (BITS * i) for i, part in enumerate(parts))
                masks[mask] = masks.get(mask, 0) + count
        return RecordCounts(tuple(sums), masks)

    def of(self, state: RecordCounts) -> dict[tuple[str, str], int]:
        """Return the counts of a state by kind and name; zeros for no data."""
        counts = state.counts or (0,) * len(self.counters)
        return dict(zip(self.counters, counts, strict=True))

    def read(self, mask: int) -> dict[str, tuple[str, ...]]:
        """Decode a mask: the names of violated rules, unknown rules, and applied fixes.

        Examples
        --------
        >>> from tidegauge.rules.tasks import Rule, Fix
        >>> tasks = Tasks((Rule("a < 3", "a"), Rule("b < 3", "b")), (Fix("c > 1", "c", 1, "c"),))
        >>> tasks.read(0b1001)
        {'violated': ('a',), 'unknown': ('b',), 'fixed': ()}
        """
        words = [(mask >> (BITS * i)) & ((1 << BITS) - 1) for i in range(self.words)]
        told: dict[str, tuple[str, ...]] = {"violated": (), "unknown": (), "fixed": ()}
        for (kind, name), tests in self.counters.items():
            if kind in told and all(((words[t.word] & t.bits) != 0) == t.any for t in tests):
                told[kind] = (*told[kind], name)
        return told

    def state(self, counted: RecordCounts, failures: Mapping[str, Any] | None = None) -> DQMState:
        """Return a `DQMState` for policies; not final yet, so that more can be added."""
        found = self.of(counted)
        state = DQMState([rule.name for rule in self.rules], [fix.name for fix in self.fixes])
        state.add_records(found["records", ""])
        state.add_rejects(found["records", ""] - found["kept", ""])
        for rule in self.rules:
            unknown = found["unknown", rule.name]
            state.add_rule(
                rule.name,
                found["charged", rule.name],
                violations=found["violated", rule.name],
                unknown=unknown,
                excluded=unknown if rule.on_null == "unknown" else 0,
                warning=not rule.rejects,
            )
        for fix in self.fixes:
            for arm, name in zip(fix.arms, fix.counters(), strict=True):
                state.add_fix(fix.name, found["fixed", name], arm.label)
        for name, error in (failures or {}).items():
            state.add_error(name, str(error))
        return state


def breaking_bits(rule: DQMRule) -> int:
    """Return the bits that mean a broken rule: violated, and unknown where null fails."""
    return VIOLATED | (UNKNOWN if rule.on_null == "fail" else 0)


@dataclass(frozen=True, slots=True)
class RecordRulesRequest(CustomRequest):
    """A scan's request for the number of records with each combination of broken rules and fixes made.

    Attributes
    ----------
    tasks : Tasks
    """

    job: ClassVar[str] = "tidegauge.rules.tally:RecordRulesJob"

    tasks: Tasks

    @property
    def texts(self) -> tuple[str, ...]:
        """The conditions of the rules and fixes."""
        return self.tasks.texts
