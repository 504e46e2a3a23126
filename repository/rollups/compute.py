"""Computation of roll-ups: metrics of windows and of the total, merged from stored states.

The total continues from its own stored state, so it reads only new states, unless a partition was
restated. States can be added but not subtracted; `fold` adds up states of overlapping windows.

States of different generations (`tidegauge.repository.store.stored_states`) are never added up. A
window with several generations fails with the reason. The total covers only the generation of the
newest partition.

States that were cleaned away cannot be subtracted. If one of their partitions is restated later,
the windows and the total keep their last good values, with a note, until the states are stored
again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.analyzer import ANALYZERS, AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    MetricError,
    MetricRuntimeError,
    RepositoryWarning,
    StateError,
    SuiteError,
)
from tidegauge.analyzers.core.metric import Metric
from tidegauge.analyzers.core.state import State
from tidegauge.repository.store import schema as s
from tidegauge.repository.store import stored_states
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.windows import WindowScheme, WindowSpan

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

AnyState = Any


NOT_CURRENT = "cleaned away"
"""Appears in the notes on values that are not based on current partitions."""


@dataclass(frozen=True)
class Part:
    """A partition at its current version; ``schema`` is the id of its table schema."""

    id: int
    version: int
    time: datetime | None
    segment: str
    schema: int
    name: str


@dataclass(frozen=True)
class RollupResult:
    """The metric of one analyzer over one window, with its inputs.

    ``note`` describes omitted or outdated inputs.
    """

    analyzer_id: int
    analyzer: AnyAnalyzer
    metric: Metric[Any]
    window: str
    span: WindowSpan
    newest: datetime | None
    inputs: str
    note: str | None = None


@dataclass(frozen=True)
class RollupWindow:
    """The windows with one name: their partitions, all spans, and the spans to recompute.

    ``last_analyzer`` is the last analyzer id rolled up so far; later analyzers need every span.
    """

    windows: WindowScheme
    parts: list[Part]
    spans: list[WindowSpan]
    changed: list[WindowSpan]
    last_analyzer: int

    def spans_for(self, analyzers: Sequence[tuple[int, AnyAnalyzer]]) -> list[WindowSpan]:
        """Return the spans to compute for analyzers of one statistic."""
        new = any(number > self.last_analyzer for number, _ in analyzers)
        return self.spans if new else self.changed


def is_in_segment(segment: str, parent: str) -> bool:
    """Return whether a segment equals, or is nested in, a parent segment that partition keys form.

    Examples
    --------
    >>> is_in_segment("country=US/origin=EWR", "country=US"), is_in_segment("country=USA", "country=US")
    (True, False)
    """
    return parent in {"", segment} or segment.startswith(f"{parent}/")


class SlidingSum:
    """Sliding-window sum of a queue of states by two stacks, at two additions a state.

    States can be added but not subtracted, so there are two stacks. The older half stores suffix
    sums, from each state to the end of the half. The newer half stores its states and one sum. When
    the older half is empty, the newer half is moved into it.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import NumMatches
    >>> queue = SlidingSum()
    >>> for n in (1, 2, 4):
    ...     queue.push(NumMatches(n))
    >>> queue.drop()
    >>> queue.total()
    NumMatches(num_matches=6)
    """

    def __init__(self) -> None:
        self._old: list[AnyState] = []  # suffix sums; the last covers all of the older half
        self._new: list[AnyState] = []
        self._sum: AnyState | None = None  # of the newer half

    def push(self, state: State) -> None:
        """Add a state at the end."""
        self._new.append(state)
        self._sum = state if self._sum is None else self._sum + state

    def drop(self) -> None:
        """Drop the oldest state."""
        if not self._old:
            total: AnyState | None = None
            for state in reversed(self._new):
                total = state if total is None else state + total
                self._old.append(total)
            self._new, self._sum = [], None
        self._old.pop()

    def total(self) -> State | None:
        """Return the sum of the queue; None if it is empty."""
        if not self._old:
            return self._sum
        old: State = self._old[-1]
        return old if self._sum is None else old + self._sum


def fold(
    states: Sequence[State | None], spans: Sequence[WindowSpan], *, rolling: bool
) -> Iterator[State | None]:
    """Yield the sum of the states in each span; None where a span has no state.

    Parameters
    ----------
    states : sequence of State or None
        In order of time; None adds nothing.
    spans : sequence of WindowSpan
        With bounds that never decrease.
    rolling : bool
        True if spans overlap, so that sums are reused.
    """
    if not rolling:
        for span in spans:
            yield merged([state for state in states[span.first : span.last] if state is not None])
        return
    queue, first, last = SlidingSum(), 0, 0
    for span in spans:
        if span.first >= last:
            queue, first, last = SlidingSum(), span.first, span.first
        for state in states[last : span.last]:
            if state is not None:
                queue.push(state)
        for state in states[first : span.first]:
            if state is not None:
                queue.drop()
        first, last = span.first, span.last
        yield queue.total()


def merged(states: Sequence[State]) -> State | None:
    """Return the sum of states of one type; None for an empty sequence."""
    return type(states[0]).merge(states) if states else None


class RollupComputation:
    """Computes the window metrics of statistics.

    Attributes
    ----------
    folds : list
        The new totals: statistic, state and inputs.
    ends : dict
        The ends of all computed windows, by statistic and window name.
    kept : dict
        Reasons why windows keep their stored values, by statistic, window name and end.
    outdated : set
        New notes on values that are not based on current partitions.
    obsolete : list
        Statistic and name of folds of removed states that are no longer needed.
    """

    def __init__(
        self,
        connection: Connection,
        artifacts: stored_states.Artifacts,
        work: Mapping[str, RollupWindow],
        statistics: Sequence[tuple[int, str]],
    ) -> None:
        self.connection, self.artifacts, self.work = connection, artifacts, work
        self.statistics = statistics
        self.folds: list[tuple[int, State, str]] = []
        self.ends: dict[tuple[int, str], set[datetime]] = {}
        self.kept: dict[tuple[int, str, datetime], str] = {}
        self.outdated: set[str] = set()
        self.obsolete: list[tuple[int, str]] = []
        self._within: dict[tuple[str, str], list[Part]] = {}
        self._generations = stored_states.Generations(connection)
        self._versions_by_statistic: dict[int, dict[int, int]] = {}

    def results(self) -> Iterator[RollupResult]:
        """Yield the metrics of all analyzers over the windows to compute."""
        for statistic, segment in self.statistics:
            analyzers = self.analyzers.get(statistic, ())
            for name, window in self.work.items():
                spans = self._spans(statistic, window)
                self.ends[statistic, name] = {span.end for span in spans}
                if not spans:
                    continue
                parts = self._parts(segment, name)
                if name == stored_states.TOTAL_STATE:
                    yield from self._total(statistic, analyzers, parts, spans[0])
                else:
                    own_spans = _reindex_spans(window.parts, parts, spans)
                    yield from self._windows(statistic, analyzers, window.windows, parts, own_spans)

    def _parts(self, segment: str, name: str) -> list[Part]:
        """Return the partitions of a window name whose segment contains the given one."""
        if (segment, name) not in self._within:
            parts = [part for part in self.work[name].parts if is_in_segment(segment, part.segment)]
            self._within[segment, name] = parts
        return self._within[segment, name]

    def _spans(self, statistic: int, window: RollupWindow) -> list[WindowSpan]:
        """Return the spans to compute for a statistic.

        A span with states that were cleaned away is not recomputed. If one of its partitions
        changed, it gets a note.
        """
        spans = window.spans_for(self.analyzers.get(statistic, ()))
        cleaned = self._cleaned(statistic)
        if not cleaned or window.windows.name == stored_states.TOTAL_STATE:
            return spans
        changed, computed = set(window.changed), []
        for span in spans:
            lost = [part for part in window.parts[span.first : span.last] if part.id in cleaned]
            if not lost:
                computed.append(span)
            elif span in changed:
                note = (
                    f"not updated: states of {stored_states.partitions_text(len(lost))} (first {lost[0].name}) were"
                    " cleaned away before a partition was measured again"
                )
                self.kept[statistic, window.windows.name, span.end] = note
        return computed

    def _cleaned(self, statistic: int) -> set[int]:
        """Return the partitions whose states were cleaned away and have not been stored again."""
        cleaned = {
            partition
            for _, fold_inputs in self._removed_folds(statistic)
            for partition in fold_inputs
        }
        return cleaned - self._stored_versions(statistic).keys() if cleaned else cleaned

    def _removed_folds(self, statistic: int) -> list[tuple[str, dict[int, int]]]:
        """Return name and inputs of each fold of removed states; there is one for each generation."""
        return [
            (name, stored_states.decode_inputs(row[5]))
            for (owner, name), row in self._folds.items()
            if owner == statistic and name.startswith(stored_states.REMOVED_STATE)
        ]

    def _stored_versions(self, statistic: int) -> dict[int, int]:
        """Return the partitions that have a state of their current version, and the version."""
        if statistic not in self._versions_by_statistic:
            self._versions_by_statistic[statistic] = self._read_stored_versions(statistic)
        return self._versions_by_statistic[statistic]

    def _read_stored_versions(self, statistic: int) -> dict[int, int]:
        state = s.state.c
        query = (
            sa.select(state.partition_id, state.version)
            .join_from(
                s.state,
                s.partition_version,
                (s.partition_version.c.partition_id == state.partition_id)
                & (s.partition_version.c.version == state.version)
                & s.holds(s.partition_version),
            )
            .where(state.statistic_id == statistic)
        )
        return {row[0]: row[1] for row in self.connection.execute(query)}

    def _analyzer_of(self, statistic: int) -> AnyAnalyzer | None:
        analyzers = self.analyzers.get(statistic)
        return analyzers[0][1] if analyzers else None

    def _generation_by_part(self, statistic: int, parts: Sequence[Part]) -> dict[int, str]:
        schemas = {part.schema for part in parts}
        generations = self._generations.find(self._analyzer_of(statistic), schemas)
        return {part.id: generations[part.schema] for part in parts}

    def _windows(
        self,
        statistic: int,
        analyzers: Sequence[tuple[int, AnyAnalyzer]],
        windows: WindowScheme,
        parts: Sequence[Part],
        spans: Sequence[WindowSpan],
    ) -> Iterator[RollupResult]:
        bounds = (min(x.first for x in spans), max(x.last for x in spans)) if spans else (0, 0)
        needed = {part.id: part.version for part in parts[slice(*bounds)]}
        states, errors = self._states(statistic, needed)
        if not states and not errors:
            return
        generations = self._generation_by_part(statistic, parts)
        totals = _window_totals(states, parts, spans, generations, rolling=windows.rolling)
        for span, total in zip(spans, totals, strict=True):
            members = parts[span.first : span.last]
            have = [part for part in members if part.id in states]
            damaged = [errors[part.id] for part in members if part.id in errors]
            if have or damaged:
                problem = next(iter(damaged), None)
                if isinstance(total, MetricError):
                    problem = problem or total
                problem = problem or _missing_states_error(len(members) - len(have), len(members))
                newest = max((p.time for p in members if p.time is not None), default=None)
                inputs = stored_states.encode_inputs({part.id: part.version for part in have})
                state = None if isinstance(total, MetricError) else total
                yield from _results(analyzers, state, problem, (windows.name, span, newest, inputs))

    def _total(
        self,
        statistic: int,
        analyzers: Sequence[tuple[int, AnyAnalyzer]],
        parts: Sequence[Part],
        span: WindowSpan,
    ) -> Iterator[RollupResult]:
        members, notes = self._members_of_total(statistic, parts)
        versions = {part.id: part.version for part in members}
        problem: MetricError | None = None
        base = None
        with suppress(StateError):  # a damaged total is computed again from the stored states
            base = self._folded(statistic, stored_states.TOTAL_STATE)
        if base is not None and not _inputs_are_current(base[1], versions):
            base = None  # a partition in it was restated, or has another generation
        if base is None:
            try:
                base = self._removed_base(statistic, members)
            except StateError as error:
                problem = MetricError.from_exception(error)
        base_inputs = base[1] if base else {}
        # A removed state cannot be subtracted, so the old version of its partition counts.
        outdated = [p for p, version in base_inputs.items() if versions.get(p) != version]
        if outdated:
            names = {part.id: part.name for part in parts}
            first = min(names.get(partition, "dropped since") for partition in outdated)
            notes.append(
                f"does not show the newest version of {stored_states.partitions_text(len(outdated))} (first {first}),"
                " because states were cleaned away before; measure all partitions again to correct it"
            )
        added = sorted(versions.keys() - base_inputs.keys())
        states, errors = self._states(statistic, {i: versions[i] for i in added})
        have = base_inputs | {partition: versions[partition] for partition in states}
        if not have and not errors:
            return
        problem = problem or next(iter(errors.values()), None)
        total = None
        try:
            total = merged([*([base[0]] if base else []), *states.values()])
        except StateError as error:
            problem = problem or MetricError.from_exception(error)
        inputs = stored_states.encode_inputs(have)
        if total is not None and problem is None:
            self.folds.append((statistic, total, inputs))
        problem = problem or _missing_states_error(
            len(versions.keys() - have.keys()), len(versions)
        )
        newest = max((part.time for part in parts if part.time is not None), default=None)
        window_values = (stored_states.TOTAL_STATE, span, newest, inputs)
        yield from _results(analyzers, total, problem, window_values, "; ".join(notes) or None)

    def _members_of_total(
        self, statistic: int, parts: Sequence[Part]
    ) -> tuple[Sequence[Part], list[str]]:
        """Return the partitions of the newest state's generation, and notes on excluded partitions."""
        generations = self._generation_by_part(statistic, parts)
        if len(set(generations.values())) <= 1:
            return parts, []
        with_state = self._stored_versions(statistic).keys() | {
            partition for _, inputs in self._removed_folds(statistic) for partition in inputs
        }
        measured = [part for part in parts if part.id in with_state]
        if not measured:
            return parts, []
        newest = generations[measured[-1].id]
        excluded = [part for part in measured if generations[part.id] != newest]
        # Partitions without a state are missing from the total, regardless of their column's type.
        left_out = {part.id for part in excluded}
        members = [part for part in parts if part.id not in left_out]
        if not excluded:
            return members, []
        text = stored_states.mixed_types_text(
            [generations[p.id] for p in measured], [p.name for p in measured]
        )
        return members, [f"leaves out {stored_states.partitions_text(len(excluded))}: {text}"]

    def _removed_base(
        self, statistic: int, members: Sequence[Part]
    ) -> tuple[State, dict[int, int]] | None:
        """Return the sum of removed states of the members' generation, unless all have been stored again."""
        stored = self._stored_versions(statistic) if self._removed_folds(statistic) else {}
        ids = {part.id for part in members}
        schemas = {part.schema for part in members}
        member_generations = set(
            self._generations.find(self._analyzer_of(statistic), schemas).values()
        )
        for name, inputs in self._removed_folds(statistic):
            if (inputs.keys() & ids) <= stored.keys():
                self.obsolete.append((statistic, name))
                continue
            generation = stored_states.fold_generation(
                self.connection, self._generations, self._analyzer_of(statistic), inputs
            )
            if generation is None or generation in member_generations:
                return self._folded(statistic, name)
        return None

    def _states(
        self, statistic: int, versions: Mapping[int, int]
    ) -> tuple[dict[int, State], dict[int, MetricError]]:
        """Return a statistic's states by partition, in id order, and errors of damaged ones."""
        state = s.state.c
        states: dict[int, State] = {}
        errors: dict[int, MetricError] = {}
        for chunk in chunks(sorted(versions)):
            query = (
                sa.select(state.partition_id, state.version, *s.payload_of(s.state))
                .where(state.statistic_id == statistic, state.partition_id.in_(chunk))
                .order_by(state.partition_id)
            )
            for partition, version, *payload in self.connection.execute(query):
                if versions[partition] == version:
                    try:
                        states[partition] = self.artifacts.unpack(stored_states.Payload(*payload))
                    except StateError as error:
                        errors[partition] = MetricError.from_exception(error)
        return states, errors

    def _folded(self, statistic: int, name: str) -> tuple[State, dict[int, int]] | None:
        row = self._folds.get((statistic, name))
        if row is None:
            return None
        state = self.artifacts.unpack(stored_states.Payload(*row[1:5]))
        return state, stored_states.decode_inputs(row[5])

    @cached_property
    def _folds(self) -> dict[tuple[int, str], Any]:
        folded_state, folds = s.folded_state.c, {}
        payload = s.payload_of(s.folded_state)
        for chunk in chunks([statistic for statistic, _ in self.statistics]):
            query = (
                sa.select(
                    folded_state.statistic_id, folded_state.fold, *payload, s.input_set.c.inputs
                )
                .join_from(s.folded_state, s.input_set)
                .where(folded_state.statistic_id.in_(chunk))
            )
            for row in self.connection.execute(query):
                folds[row[0], row[1]] = tuple(row[1:])
        return folds

    @cached_property
    def analyzers(self) -> dict[int, list[tuple[int, AnyAnalyzer]]]:
        """The analyzers that read each statistic."""
        analyzers: dict[int, list[tuple[int, AnyAnalyzer]]] = {}
        for chunk in chunks([statistic for statistic, _ in self.statistics]):
            query = sa.select(s.analyzer.c.statistic_id, s.analyzer.c.id, s.analyzer.c.text).where(
                s.analyzer.c.statistic_id.in_(chunk)
            )
            for statistic, number, text in self.connection.execute(query):
                try:
                    analyzer = ANALYZERS.parse(text)
                except (SuiteError, IllegalAnalyzerParameterError) as error:
                    # the package that defines it is no longer installed
                    warnings.warn(f"{text} is not rolled up: {error}", RepositoryWarning, 2)
                    continue
                analyzers.setdefault(statistic, []).append((number, analyzer))
        return analyzers


def _reindex_spans(
    parts: Sequence[Part], selected: Sequence[Part], spans: Sequence[WindowSpan]
) -> list[WindowSpan]:
    """Re-index spans from all partitions to the selected ones, dropping spans that become empty."""
    if len(parts) == len(selected):
        return list(spans)
    selected_ids = {part.id for part in selected}
    counts_before = [0]  # number of selected partitions before each position
    for part in parts:
        counts_before.append(counts_before[-1] + (part.id in selected_ids))
    reindexed = (
        WindowSpan(x.start, x.end, counts_before[x.first], counts_before[x.last]) for x in spans
    )
    return [span for span in reindexed if span.first < span.last]


def _inputs_are_current(inputs: Mapping[int, int], versions: Mapping[int, int]) -> bool:
    """Return whether all inputs of a fold are still at their current versions."""
    return all(versions.get(partition) == version for partition, version in inputs.items())


def _missing_states_error(missing: int, total: int) -> MetricError | None:
    if not missing:
        return None
    return MetricRuntimeError(f"no state for {missing} of {total} partitions")


def _window_totals(
    states: Mapping[int, State],
    parts: Sequence[Part],
    spans: Sequence[WindowSpan],
    generations: Mapping[int, str],
    *,
    rolling: bool,
) -> list[State | MetricError | None]:
    """Return the sum of the states in each span; an error for a span with several generations."""
    totals: list[State | MetricError | None] = [None] * len(spans)
    indices_by_generation: dict[str, list[int]] = {}
    for index, span in enumerate(spans):
        measured = [part for part in parts[span.first : span.last] if part.id in states]
        part_generations = [generations[part.id] for part in measured]
        if len(set(part_generations)) > 1:
            text = stored_states.mixed_types_text(
                part_generations, [part.name for part in measured]
            )
            totals[index] = MetricRuntimeError(text)
        elif part_generations:
            indices_by_generation.setdefault(part_generations[0], []).append(index)
    for generation, indices in indices_by_generation.items():
        own_states = [
            states.get(part.id) if generations[part.id] == generation else None for part in parts
        ]
        own_spans = [spans[index] for index in indices]
        try:
            sums: list[State | MetricError | None] = [*fold(own_states, own_spans, rolling=rolling)]
        except StateError:  # the states of one span cannot be merged; compute the others separately
            sums = [_sum_or_error(own_states[span.first : span.last]) for span in own_spans]
        for index, total in zip(indices, sums, strict=True):
            totals[index] = total
    return totals


def _sum_or_error(states: Sequence[State | None]) -> State | MetricError | None:
    try:
        return merged([state for state in states if state is not None])
    except StateError as error:
        return MetricError.from_exception(error)


def _results(
    analyzers: Sequence[tuple[int, AnyAnalyzer]],
    total: State | None,
    problem: MetricError | None,
    window_values: tuple[str, WindowSpan, datetime | None, str],
    note: str | None = None,
) -> Iterator[RollupResult]:
    for number, analyzer in analyzers:
        if problem is None:
            metric = analyzer.compute_metric_from(total)
        else:
            metric = analyzer.to_failure_metric(problem)
        yield RollupResult(number, analyzer, metric, *window_values, note)
