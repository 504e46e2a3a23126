"""Counts and samples of validated data, and the bit layout in which outcomes of rules and fixes are counted.

`RecordCounts` are mergeable; `DQMState` reads them by rule and fix.

Each rule has two bits: violated, and unknown. Each arm of a fix has one. They are packed into words
of 62 bits: first the rules on original values, then the fixes, then the rules on repaired values. A
mask is all words concatenated into one integer. `Tasks` encodes, counts and decodes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from tidegauge.analyzers.core.analyzer import CustomRequest
from tidegauge.analyzers.core.errors import MetricError, RuleError
from tidegauge.analyzers.core.formatting import plain
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.state import Count, State, mismatch, register_state
from tidegauge.rules.tasks import DQMFix, DQMRule, KeyLookup

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


T = TypeVar("T")

MAX_MASKS = 4096
"""Limit on combinations of broken rules, which bounds the size of a state; above it, only sums are stored."""


@register_state("record-counts/1")
@dataclass(frozen=True, slots=True)
class RecordCounts(State):
    """Mergeable record counts, in total and by combination of broken rules and applied fixes.

    Attributes
    ----------
    counts : tuple of int
        Sums, in the order of `tidegauge.rules.record_counts.Tasks.counters`; empty for no data.
    masks : mapping of int to int, or None
        Number of records by combination, as a bit mask that `tidegauge.rules.record_counts.Tasks.read`
        decodes; None if there were more than 4,096 combinations.

    Examples
    --------
    >>> a, b = RecordCounts((3, 1), {0: 2, 1: 1}), RecordCounts((2, 2), {1: 2})
    >>> a + b
    RecordCounts(counts=(5, 3), masks={0: 2, 1: 3})
    """

    counts: tuple[Count, ...] = ()
    masks: Mapping[int, int] | None = field(default_factory=dict, hash=False)

    def combine(self, other: Self) -> Self:
        """Add the counts; combinations above the limit are dropped, independent of the order of merging."""
        if not self.counts or not other.counts:
            return self if self.counts else other
        if len(self.counts) != len(other.counts):
            raise mismatch("numbers of counts", len(self.counts), len(other.counts))
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        if self.masks is None or other.masks is None:
            return type(self)(counts, None)
        masks = dict(self.masks)
        for mask, count in other.masks.items():
            masks[mask] = masks.get(mask, 0) + count
        return type(self)(counts, masks if len(masks) <= MAX_MASKS else None)

    def agrees_with(self, other: Self) -> bool:
        """Return whether all counts are equal, and also the combinations if both states have them."""
        if type(self) is not type(other) or self.counts != other.counts:
            return False
        return None in (self.masks, other.masks) or self.masks == other.masks

    def pack(self) -> bytes:
        """Return JSON: the counts, and pairs of a hexadecimal mask and a count."""
        masks = self.masks and [[f"{mask:x}", count] for mask, count in sorted(self.masks.items())]
        return json.dumps([self.counts, masks], separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read the output of `pack`."""
        counts, masks = json.loads(payload)
        masks_by_bits = (
            None if masks is None else {int(mask, 16): int(count) for mask, count in masks}
        )
        return cls(tuple(map(int, counts)), masks_by_bits)


@dataclass(frozen=True)
class Tally:
    """Counts of one group.

    Attributes
    ----------
    counts : RecordCounts
        The counts.
    failures : mapping of str to MetricError
        Tasks that could not be evaluated; the counts ignore them.
    """

    counts: RecordCounts
    failures: Mapping[str, MetricError] = field(default_factory=dict)

    def without_values(self, private: Privacy) -> Tally:
        """Return a copy whose errors do not quote private values."""
        failures = {name: private.without_values(error) for name, error in self.failures.items()}
        return Tally(self.counts, failures)


@dataclass(frozen=True)
class Sample:
    """One record that was rejected or could not be read, for inspection.

    Attributes
    ----------
    task : str
        The rule that the record is charged to, or the kind of parsing error.
    record : mapping of str to str or None
        The key columns, then the columns that the rule reads.
    partition : str
        Name of the partition; empty for unpartitioned data.
    """

    task: str
    record: Mapping[str, str | None]
    partition: str = ""

    def __str__(self) -> str:
        """Return the columns as ``name=value`` on one line; null is empty, control characters are escaped."""
        cells = ",".join(
            f"{plain(name)}={plain(value) if value else ''}" for name, value in self.record.items()
        )
        return f"{self.partition}: {cells}" if self.partition else cells


class DQMState:
    """Counts of one application of a `DQM`, final once `snapshot` is called.

    Counts cannot be read before the snapshot, and cannot be changed after it, so the counts do
    not change under a policy.

    Parameters
    ----------
    rules, fixes : sequence of str
        Names of the rules and fixes.

    Examples
    --------
    >>> state = DQMState(rules=["age"], fixes=["cap"])
    >>> state.add_records(11)
    >>> state.add_rule("age", 6)
    >>> state.snapshot()
    >>> state.records, state.rule_count("age"), state.fix_count("cap"), state.total_rule_count
    (11, 6, 0, 6)
    """

    def __init__(self, rules: Sequence[str] = (), fixes: Sequence[str] = ()) -> None:
        self._records = 0
        self._rules = dict.fromkeys(rules, 0)
        self._unknown = dict.fromkeys(rules, 0)
        self._violations = dict.fromkeys(rules, 0)
        self._excluded = dict.fromkeys(rules, 0)
        self._warnings: set[str] = set()
        self._fixes = dict.fromkeys(fixes, 0)
        self._arms: dict[str, dict[str, int]] = {name: {} for name in fixes}
        self._parser: dict[str, int] = {}
        self._rejects = 0
        self._lines = 0
        self._samples: list[Sample] = []
        self._errors: dict[str, str] = {}
        self._final = False

    # filling

    def add_records(self, count: int = 1) -> None:
        """Count records that the rules were applied to."""
        self._open()
        self._records += count

    def add_rule(
        self,
        name: str,
        count: int = 1,
        *,
        violations: int | None = None,
        unknown: int = 0,
        excluded: int = 0,
        warning: bool = False,
    ) -> None:
        """Count records charged to a rule.

        Parameters
        ----------
        name : str
            Name of the rule.
        count : int
            Records that this rule was the first to reject; for a warning, records that broke the rule.
        violations, unknown : int, optional
            Records for which the rule was false or null, also if another rule rejected them;
            ``violations`` defaults to ``count``.
        excluded : int
            Records excluded from the rule's share.
        warning : bool
            Whether the rule only warns, so that it is excluded from the total.
        """
        self._open()
        self._count_of(self._rules, name, "rule")
        self._rules[name] += count
        self._violations[name] += count if violations is None else violations
        self._unknown[name] += unknown
        self._excluded[name] += excluded
        if warning:
            self._warnings.add(name)

    def add_fix(self, name: str, count: int = 1, arm: str = "") -> None:
        """Count values that a fix repaired."""
        self._open()
        self._count_of(self._fixes, name, "fix")
        self._fixes[name] += count
        if arm:
            self._arms[name][arm] = self._arms[name].get(arm, 0) + count

    def add_rejects(self, count: int) -> None:
        """Count records that any rule rejected."""
        self._open()
        self._rejects += count

    def add_parsed(self, lines: int, rejects: Mapping[str, int]) -> None:
        """Count the records of a file, and its unreadable records by kind of error."""
        self._open()
        self._lines += lines
        for kind, count in rejects.items():
            self._parser[kind] = self._parser.get(kind, 0) + count

    def add_sample(self, sample: Sample) -> None:
        """Add a sample record."""
        self._open()
        self._samples.append(sample)

    def add_error(self, name: str, reason: str) -> None:
        """Store the reason why a task could not be evaluated."""
        self._open()
        self._errors[name] = reason

    def snapshot(self) -> None:
        """Freeze the counts."""
        self._final = True

    # reading

    @property
    def records(self) -> int:
        """Records that the rules were applied to: after parsing, before rejection."""
        return self._read(self._records)

    @property
    def rejects(self) -> int:
        """Records that any rule rejected."""
        return self._read(self._rejects)

    def rule_count(self, name: str) -> int:
        """Return the records charged to a rule: each record to the first rule that rejects it."""
        return self._read(self._count_of(self._rules, name, "rule"))

    def violations(self, name: str) -> int:
        """Return the records for which a rule is false, also if another rule rejected them."""
        return self._read(self._count_of(self._violations, name, "rule"))

    def unknown(self, name: str) -> int:
        """Return the records for which a rule is null."""
        return self._read(self._count_of(self._unknown, name, "rule"))

    def rule_records(self, name: str) -> int:
        """Return the number of records that a rule's share is relative to."""
        return self._read(self._records - self._count_of(self._excluded, name, "rule"))

    def fix_count(self, name: str) -> int:
        """Return the values that a fix repaired.

        ``name.low`` and ``name.high`` are the sides of a `BoundFix`.
        """
        fix, _, arm = name.rpartition(".")
        if name not in self._fixes and arm in self._arms.get(fix, {}):
            return self._read(self._arms[fix][arm])
        return self._read(self._count_of(self._fixes, name, "fix"))

    @property
    def total_rule_count(self) -> int:
        """Total over all rules that reject, which equals the number of rejects."""
        counts = (count for name, count in self._rules.items() if name not in self._warnings)
        return self._read(sum(counts))

    @property
    def total_fix_count(self) -> int:
        """Total over all fixes."""
        return self._read(sum(self._fixes.values()))

    @property
    def parser_count(self) -> int:
        """Records of a file that could not be read."""
        return self._read(sum(self._parser.values()))

    @property
    def lines(self) -> int:
        """Records of a file, readable or not; 0 if no file was parsed."""
        return self._read(self._lines)

    @property
    def samples(self) -> Sequence[Sample]:
        """Sample records."""
        return self._read(tuple(self._samples))

    @property
    def errors(self) -> Mapping[str, str]:
        """Tasks that could not be evaluated, with the reason."""
        return self._read(dict(self._errors))

    def log(self) -> list[str]:
        """Return log lines: each task with a non-zero count or an error, with its samples."""
        lines = []
        for name, count in self._read(self._rules).items():
            unknown = self._unknown[name]
            if count or unknown or name in self._errors:
                suffix = f", {unknown} unknown" if unknown else ""
                lines.append(f"rule {name}: {count} of {self._records} records{suffix}")
                lines += self._error_and_samples(name)
        for name, count in self._fixes.items():
            if count or name in self._errors:
                arms = [f"{n} {arm}" for arm, n in self._arms[name].items()]
                suffix = f" ({', '.join(arms)})" if arms else ""
                lines.append(f"fix {name}: {count} of {self._records} records{suffix}")
                lines += self._error_and_samples(name)
        for kind, count in self._parser.items():
            if count:
                lines.append(f"parser: {count} of {self._lines} records: {kind}")
                lines += self._error_and_samples(kind)
        return lines

    def _error_and_samples(self, name: str) -> list[str]:
        failed = [f"  {self._errors[name]}"] if name in self._errors else []
        return failed + [f"  {sample}" for sample in self._samples if sample.task == name]

    def _open(self) -> None:
        if self._final:
            msg = "the counts are final after snapshot() and cannot be changed"
            raise RuleError(msg)

    def _read(self, value: T) -> T:
        if not self._final:
            msg = "the counts are not final; call snapshot() after the data is read"
            raise RuleError(msg)
        return value

    def _count_of(self, counts: Mapping[str, int], name: str, kind: str) -> int:
        if name not in counts:
            msg = f"no {kind} {name!r}; the names are {', '.join(map(repr, counts)) or 'none'}"
            raise RuleError(msg)
        return counts[name]


BITS_PER_WORD = 62
"""Bits used per 64-bit word; the sign bit and another bit stay free."""
VIOLATED_BIT, UNKNOWN_BIT = 1, 2


@dataclass(frozen=True, slots=True)
class BitTest:
    """Test of bits of a word: any of them is set, or none.

    Attributes
    ----------
    word : int
        Index of the word.
    bits : int
        The bits as a mask.
    any : bool
        Whether any bit must be set; otherwise none.
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
        The rules, in the order in which they were added.
    fixes : tuple of DQMFix
        The fixes, in the order in which they were added.
    """

    rules: tuple[DQMRule, ...] = ()
    fixes: tuple[DQMFix, ...] = ()

    @cached_property
    def identity(self) -> str:
        """Canonical JSON of the tasks, which is equal for equal tasks."""
        identities = [task.identity() for task in (*self.rules, *self.fixes)]
        return canonical_json(identities)

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
    def positions(self) -> dict[str, BitPosition]:
        """Positions of the bits of each rule and fix, by name."""
        positions_by_name: dict[str, BitPosition] = {}
        word = 0
        sizes = [
            [(rule.name, 2) for rule in self.before],
            [(fix.name, len(fix.arms)) for fix in self.fixes],
            [(rule.name, 2) for rule in self.after],
        ]
        for stage in sizes:
            shift = 0
            for name, size in stage:
                if shift + size > BITS_PER_WORD:
                    word, shift = word + 1, 0
                positions_by_name[name] = BitPosition(word, shift)
                shift += size
            word += 1 if stage else 0
        return positions_by_name

    @property
    def words(self) -> int:
        """The number of words."""
        return max((position.word for position in self.positions.values()), default=-1) + 1

    @property
    def texts(self) -> tuple[str, ...]:
        """The Spark SQL of all conditions and replacements."""
        of_rules = [rule.expression for rule in self.rules]
        of_fixes = [e for fix in self.fixes for arm in fix.arms for e in (arm.condition, arm.value)]
        return tuple(expression.text for expression in of_rules + of_fixes)

    def rejecting_bits(self, rules: Iterable[DQMRule]) -> dict[int, int]:
        """Return the bits that reject a record, by word."""
        bits_by_word: dict[int, int] = {}
        for rule in rules:
            if rule.rejects:
                position = self.positions[rule.name]
                bits_by_word[position.word] = bits_by_word.get(position.word, 0) | position.bits(
                    breaking_bits(rule)
                )
        return bits_by_word

    def kept_tests(self, rules: Iterable[DQMRule]) -> BitTests:
        """Return the tests that a record passes if none of the given rules rejects it."""
        return tuple(
            BitTest(word, bits, any=False) for word, bits in self.rejecting_bits(rules).items()
        )

    @cached_property
    def counters(self) -> dict[tuple[str, str], BitTests]:
        """Counters by kind and name, with the condition on the records they count.

        The kinds are records, kept, violated, unknown, charged and fixed. A record is charged to
        the first rule that rejects it; a warning is charged with all records that break it.
        """
        tests_by_counter: dict[tuple[str, str], BitTests] = {
            ("records", ""): (),
            ("kept", ""): self.kept_tests(self.rules),
        }
        earlier: list[DQMRule] = []
        for rule in self.ordered:
            position = self.positions[rule.name]
            tests_by_counter["violated", rule.name] = (
                BitTest(position.word, position.bits(VIOLATED_BIT), any=True),
            )
            tests_by_counter["unknown", rule.name] = (
                BitTest(position.word, position.bits(UNKNOWN_BIT), any=True),
            )
            broken = BitTest(position.word, position.bits(breaking_bits(rule)), any=True)
            tests_by_counter["charged", rule.name] = (
                broken,
                *(self.kept_tests(earlier) if rule.rejects else ()),
            )
            earlier.append(rule)
        for fix in self.fixes:
            position = self.positions[fix.name]
            for i, name in enumerate(fix.counters()):
                tests_by_counter["fixed", name] = (
                    BitTest(position.word, position.bits(1 << i), any=True),
                )
        return tests_by_counter

    def fold(
        self, words: Sequence[npt.NDArray[np.int64]], counts: npt.NDArray[np.int64]
    ) -> RecordCounts:
        """Return the state of records that were counted by bit words."""
        import numpy as np

        sums = []
        for tests in self.counters.values():
            holds = np.ones(len(counts), dtype=bool)
            for test in tests:
                holds &= ((words[test.word] & test.bits) != 0) == test.any
            sums.append(int(counts[holds].sum()))
        masks: dict[int, int] | None = None
        if len(counts) <= MAX_MASKS:
            masks = {}
            for *parts, count in zip(*(w.tolist() for w in words), counts.tolist(), strict=True):
                mask = sum(part << (BITS_PER_WORD * i) for i, part in enumerate(parts))
                masks[mask] = masks.get(mask, 0) + count
        return RecordCounts(tuple(sums), masks)

    def counts_by_task(self, state: RecordCounts) -> dict[tuple[str, str], int]:
        """Return the counts of a state by kind and name; zeros for an empty state."""
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
        words = [
            (mask >> (BITS_PER_WORD * i)) & ((1 << BITS_PER_WORD) - 1) for i in range(self.words)
        ]
        names_by_kind: dict[str, tuple[str, ...]] = {"violated": (), "unknown": (), "fixed": ()}
        for (kind, name), tests in self.counters.items():
            if kind in names_by_kind and all(
                ((words[t.word] & t.bits) != 0) == t.any for t in tests
            ):
                names_by_kind[kind] = (*names_by_kind[kind], name)
        return names_by_kind

    def state(self, counted: RecordCounts, failures: Mapping[str, Any] | None = None) -> DQMState:
        """Return a `DQMState` for policies, which is not final yet."""
        counts = self.counts_by_task(counted)
        state = DQMState([rule.name for rule in self.rules], [fix.name for fix in self.fixes])
        state.add_records(counts["records", ""])
        state.add_rejects(counts["records", ""] - counts["kept", ""])
        for rule in self.rules:
            unknown = counts["unknown", rule.name]
            state.add_rule(
                rule.name,
                counts["charged", rule.name],
                violations=counts["violated", rule.name],
                unknown=unknown,
                excluded=unknown if rule.on_null == "unknown" else 0,
                warning=not rule.rejects,
            )
        for fix in self.fixes:
            for arm, name in zip(fix.arms, fix.counters(), strict=True):
                state.add_fix(fix.name, counts["fixed", name], arm.label)
        for name, error in (failures or {}).items():
            state.add_error(name, str(error))
        return state


def breaking_bits(rule: DQMRule) -> int:
    """Return the bits of a broken rule: violated, and also unknown if null fails."""
    return VIOLATED_BIT | (UNKNOWN_BIT if rule.on_null == "fail" else 0)


@dataclass(frozen=True, slots=True)
class RecordRulesRequest(CustomRequest):
    """A scan's request for the number of records with each combination of broken rules and applied fixes.

    Attributes
    ----------
    tasks : Tasks
        The rules and fixes.
    """

    job: ClassVar[str] = "tidegauge.rules.tally:RecordRulesJob"

    tasks: Tasks

    @property
    def texts(self) -> tuple[str, ...]:
        """The conditions of the rules and fixes."""
        return self.tasks.texts
