"""Jobs by partitions: only what is new or changed is read, a batch of partitions at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from analyzers.description import canonical_json, key_of
from analyzers.errors import SourceError, SuiteError
from analyzers.griffin.engine import Engine
from analyzers.griffin.loading import Loader, PreparedSource
from analyzers.griffin.measuring import Round
from analyzers.griffin.prepared import Prepared
from analyzers.griffin.results import GriffinResult, RuleResult, together
from analyzers.incremental import changed, chooser
from analyzers.ledger import Known, analyzer_key, with_references
from analyzers.sources import Listed

if TYPE_CHECKING:
    from collections.abc import Mapping

BATCH = 200
"""Partitions that are read, measured and committed together."""
UNSEEN = "(rules)"
"""Under which the fingerprints of partitions tell rules that no state tells."""


def measure_partitions(
    engine: Engine, loader: Loader, keys: Sequence[str], partitions: str | Sequence[str] = "new"
) -> GriffinResult:
    """Measure the partitions of the source that a job's rules are about.

    Parameters
    ----------
    engine : Engine
    loader : Loader
    keys : sequence of str
        The partition columns.
    partitions : str or sequence of str
        ``new``: new and changed ones; ``all``; conditions such as ``ds>=2013-02-01``; or names.

    Returns
    -------
    GriffinResult
        Of all partitions that were measured.

    Raises
    ------
    SuiteError
        If the rules are about several sources.
    SourceError
        If the source is no table or folder that is partitioned so.
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
    source = PreparedSource.of(sources[name], keys, loader)
    references = {
        **_fingerprints(loader, [one for one in sources if one != name], engine),
        UNSEEN: _unseen(engine, prepared),
    }
    listed = [
        replace(entry, fingerprint=with_references(entry.fingerprint, references))
        for entry in sorted(source.list_partitions(), key=lambda listed: listed.partition.name)
    ]
    done: list[GriffinResult] = []
    for number, batch in enumerate(_batches(_due(listed, engine, prepared, partitions, keys))):
        frame = source.read([entry.partition for entry in batch])
        prints = {e.partition: e.fingerprint for e in batch if e.fingerprint is not None}
        frames = {**whole, name: frame}
        # Each batch has a time of its own, or sinks would put one in the place of another.
        time = loader.timestamp + number
        of = Round(frames, time, tuple(keys), prints, source.partition_of)
        done.append(engine.run(of))
    nothing = tuple(
        RuleResult(one.name, one.plan.source, notices=one.plan.notices) for one in prepared
    )
    return together([GriffinResult(engine.dataset, nothing), *done])


def _due(
    listed: Sequence[Listed],
    engine: Engine,
    prepared: Sequence[Prepared],
    partitions: str | Sequence[str],
    keys: Sequence[str],
) -> list[Listed]:
    """Return the partitions to measure: those that are chosen, else what the ledger does not know so."""
    choose = chooser(partitions, keys)
    if choose is not None:
        chosen = choose(listed)
        return [entry for entry in listed if entry.partition.name in chosen]
    if engine.repository is None:
        return list(listed)
    ledger = engine.repository.store.ledger(engine.dataset)
    wanted = {analyzer_key(one.measure) for one in prepared if one.measure is not None}

    def known(entry: Listed, of: Known | None) -> bool:
        return of is not None and not changed(entry, of) and wanted <= of.analyzers

    return [entry for entry in listed if not known(entry, ledger.get(entry.partition.name))]


def _fingerprints(loader: Loader, others: Sequence[str], engine: Engine) -> Mapping[str, str]:
    """Return the fingerprints of the other sources, where their files can be listed."""
    found = {}
    for source in engine.job.sources:
        if source.name in others and len(source.connectors) == 1:
            try:
                entries = PreparedSource.of(source, (), loader).list_partitions()
            except SourceError:
                continue
            files = [e.fingerprint for e in entries if e.fingerprint is not None]
            if files:
                found[source.name] = key_of(canonical_json(files))
    return found


def _unseen(engine: Engine, prepared: Sequence[Prepared]) -> str:
    """Return a hash of the rules that the ledger does not know by states: those without, and those before measuring."""
    without = [asdict(one.config) for one in prepared if one.measure is None]
    before = [
        [source.name, *(asdict(rule) for rule in connector.pre_proc)]
        for source in engine.job.sources
        for connector in source.connectors
    ]
    return key_of(canonical_json([without, before]))


def _batches(listed: Sequence[Listed]) -> Iterator[Sequence[Listed]]:
    for start in range(0, len(listed), BATCH):
        yield listed[start : start + BATCH]
