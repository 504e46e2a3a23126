"""Incremental jobs: measure only new or changed partitions, in batches of partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import SourceError, SuiteError
from tidegauge.analyzers.runs.ledger import LedgerEntry, analyzer_key, with_references
from tidegauge.analyzers.runs.recording import WAIT_SECONDS
from tidegauge.analyzers.runs.runner import changed, partition_filter
from tidegauge.analyzers.sources.sources import ListedPartition, whole_fingerprint
from tidegauge.griffin.connectors import listable
from tidegauge.griffin.execution.engine import Engine
from tidegauge.griffin.execution.loader import Loader, PreparedSource
from tidegauge.griffin.execution.measuring import Round
from tidegauge.griffin.execution.preparation import Prepared
from tidegauge.griffin.results import GriffinResult, RuleResult, combine_results

if TYPE_CHECKING:
    from collections.abc import Mapping

BATCH = 200
"""Number of partitions that are read, measured and committed together."""
UNSEEN = "(rules)"
"""Key, in partition fingerprints, of the hash of rules that leave no state in the ledger."""


def measure_partitions(
    engine: Engine, loader: Loader, keys: Sequence[str], partitions: str | Sequence[str] = "new"
) -> GriffinResult:
    """Measure the partitions of a job's source.

    Parameters
    ----------
    engine : Engine
    loader : Loader
    keys : sequence of str
        The partition columns.
    partitions : str or sequence of str
        ``new`` for new and changed ones; ``all``; conditions such as ``ds>=2013-02-01``; or names.

    Returns
    -------
    GriffinResult
        The result of all measured partitions.

    Raises
    ------
    SuiteError
        If the rules do not measure exactly one source.
    SourceError
        If the source is no table or folder with these partition columns.
    """
    sources = {source.name: source for source in engine.job.sources}
    whole = {name: loader.load(source) for name, source in sources.items()}
    prepared = engine.check(whole, tuple(keys))
    measured = {one.plan.source for one in prepared if one.measured and one.plan.source in sources}
    if len(measured) != 1:
        raise SuiteError(
            f"by partitions a job measures one source, not {', '.join(sorted(measured)) or 'none'};"
            " give each a job of its own"
        )
    (name,) = measured
    source = PreparedSource.from_config(sources[name], keys, loader)
    references = {
        **_fingerprints(loader, [one for one in sources if one != name], engine),
        UNSEEN: _unseen(engine, prepared),
    }
    done: list[GriffinResult] = []
    with _alone(engine):
        listed = [
            replace(entry, fingerprint=with_references(entry.fingerprint, references))
            for entry in sorted(source.list_partitions(), key=lambda listed: listed.partition.name)
        ]
        for number, batch in enumerate(_batches(_due(listed, engine, prepared, partitions, keys))):
            frame = source.read([entry.partition for entry in batch])
            prints = {e.partition: e.fingerprint for e in batch if e.fingerprint is not None}
            frames = {**whole, name: frame}
            # Each batch has a timestamp of its own, or sinks would overwrite one batch with the next.
            time = loader.timestamp + number
            of = Round(frames, time, tuple(keys), prints, source.partition_of)
            done.append(engine.run(of))
    nothing = tuple(
        RuleResult(one.name, one.plan.source, notices=one.plan.notices) for one in prepared
    )
    return combine_results([GriffinResult(engine.dataset, nothing), *done])


def _alone(engine: Engine) -> AbstractContextManager[object]:
    """Keep other processes from the same job: who waited lists and measures what is left, and tells no sink again."""
    if engine.repository is None:
        return nullcontext()
    return engine.repository.store.hold(f"Griffin job {engine.dataset}", WAIT_SECONDS)


def _due(
    listed: Sequence[ListedPartition],
    engine: Engine,
    prepared: Sequence[Prepared],
    partitions: str | Sequence[str],
    keys: Sequence[str],
) -> list[ListedPartition]:
    """Return the partitions to measure: the selected ones, else those not in the ledger as is."""
    choose = partition_filter(partitions, keys)
    if choose is not None:
        chosen = choose(listed)
        return [entry for entry in listed if entry.partition.name in chosen]
    if engine.repository is None:
        return list(listed)
    ledger = engine.repository.store.ledger(engine.dataset)
    wanted = {analyzer_key(one.measure) for one in prepared if one.measure is not None}

    def known(entry: ListedPartition, of: LedgerEntry | None) -> bool:
        return of is not None and not changed(entry, of) and wanted <= of.analyzers

    return [entry for entry in listed if not known(entry, ledger.get(entry.partition.name))]


def _fingerprints(loader: Loader, others: Sequence[str], engine: Engine) -> Mapping[str, str]:
    """Return the fingerprints of the other sources whose files can be listed."""
    found = {}
    for source in engine.job.sources:
        if source.name in others and len(source.connectors) == 1:
            try:
                table = listable(source.connectors[0], loader.spark, source.name)
            except SourceError:
                continue
            print_ = None if table is None else whole_fingerprint(table)
            if print_ is not None:
                found[source.name] = print_
    return found


def _unseen(engine: Engine, prepared: Sequence[Prepared]) -> str:
    """Return a hash of the rules that leave no state in the ledger, and of pre-processing rules."""
    without = [one.config.identity() for one in prepared if one.measure is None]
    before = [
        [source.name, *(rule.identity() for rule in connector.pre_proc)]
        for source in engine.job.sources
        for connector in source.connectors
    ]
    return key_of(canonical_json([without, before]))


def _batches(listed: Sequence[ListedPartition]) -> Iterator[Sequence[ListedPartition]]:
    for start in range(0, len(listed), BATCH):
        yield listed[start : start + BATCH]
