"""Detection in many datasets: their series are scored together, and their results written together.

A table of few series takes nearly as long to score as a table of hundreds, because the time is spent on the calls of
array functions. The steps of a detection are therefore generators that request scores (`Scoring`). The requests of many
datasets for one detector are answered at once, and the detector scores the series of equal partitions as one history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tidegauge.analyzers.core.errors import DatabaseAccessError
from tidegauge.repository.detection.detect import (
    DetectionJob,
    StoredDataset,
    create_inputs,
    start_detections,
)
from tidegauge.repository.detection.findings import DetectorResult, write_results
from tidegauge.repository.detectors.base import Detector, ScoreRequest, Scoring, score_requests
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.queries import dataset_id

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.repository.detectors.monitor import Monitor
    from tidegauge.repository.store.database import Database
    from tidegauge.repository.store.queries import Window
    from tidegauge.repository.store.stored_states import Artifacts

R = TypeVar("R")

MAX_POINTS_TOGETHER = 2**18
"""Datasets are detected together until they have this many points; a point takes about 300 bytes of memory."""


@dataclass(frozen=True)
class Detected:
    """The outcome of a detection in several datasets.

    Attributes
    ----------
    failed : mapping of str to Exception
        The reason for each dataset that could not be scored or written.
    idle : list of Monitor
        The given monitors that watch no series of any dataset.
    """

    failed: Mapping[str, Exception]
    idle: list[Monitor]


def detect(
    database: Database,
    artifacts: Artifacts,
    datasets: Sequence[str],
    monitors: Sequence[Monitor] | None,
    window: Window,
    *,
    replay: bool = False,
) -> Detected:
    """Detect anomalies in new and changed metrics of datasets.

    The results are the same as of one dataset after the other. A dataset that fails does not stop the others. The
    scores, anomalies and incidents of a dataset are stored in one commit, which it can share with other datasets.
    Unchanged results are not written again. An anomaly is withdrawn when its point is normal again; if the
    anomaly returns, it keeps its id.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
        Storage of large states, from which distributions are read.
    datasets : sequence of str
    monitors : sequence of Monitor, optional
        Default: the monitors of each dataset's last run. In this case anomalies of all other detectors
        are withdrawn.
    window : Window
        Only points in the window can become anomalies or stop being anomalies.
    replay : bool
        If true, score the whole history again.

    Raises
    ------
    DatabaseAccessError
        If the repository cannot be read or written.
    """
    failed: dict[str, Exception] = {}
    idle = [monitor for monitor in monitors or () if monitor.series]
    for names in _groups(database, list(dict.fromkeys(datasets))):
        pending, recorded = names, set[str]()
        while pending:  # retry datasets whose inputs were missing, or in which another process detected meanwhile
            with database.read() as connection:
                read = partial(
                    _read_job,
                    connection,
                    StoredDataset.read(connection, pending),
                    monitors=monitors,
                    window=window,
                    replay=replay,
                )
                jobs = _each(pending, read, failed)
                ready = {
                    name: job
                    for name, job in jobs.items()
                    if job.has_partition_series and (name in recorded or not job.records_inputs)
                }
                steps = _start(connection, ready, failed)
                results = _complete_all(steps, failed)
            incomplete = [name for name in jobs if name not in ready]
            recorded |= set(incomplete)
            create = partial(_create_inputs, database, artifacts, jobs)
            _each(incomplete, create, failed)
            written = _write(database, {n: (ready[n], results[n]) for n in results}, failed)
            pending = [name for name in pending if name not in written and name not in failed]
            for name in written:
                series = jobs[name].dimensions[0]
                idle = [monitor for monitor in idle if not any(map(monitor.watches, series))]
    return Detected(failed, idle)


def _groups(database: Database, datasets: Sequence[str]) -> Iterator[list[str]]:
    """Split datasets into groups of at most `MAX_POINTS_TOGETHER` points, or of one dataset."""
    if len(datasets) < 2:
        yield from ([name] for name in datasets)
        return
    sizes: dict[str, int] = {}
    d, p, a = s.dataset.c, s.partition.c, s.analyzer.c
    with database.read() as connection:
        series = (
            sa.select(a.dataset_id, sa.func.count().label("count"))
            .join_from(s.series, s.analyzer)
            .group_by(a.dataset_id)
            .subquery()
        )
        partitions = (
            sa.select(p.dataset_id, sa.func.count().label("count"))
            .group_by(p.dataset_id)
            .subquery()
        )
        query = (
            sa.select(d.name, series.c.count * partitions.c.count)
            .join_from(s.dataset, series, series.c.dataset_id == d.id)
            .join(partitions, partitions.c.dataset_id == d.id)
        )
        sizes.update((name, points) for name, points in connection.execute(query))
    group: list[str] = []
    points = 0
    for name in datasets:
        if group and points + sizes.get(name, 0) > MAX_POINTS_TOGETHER:
            yield group
            group, points = [], 0
        group.append(name)
        points += sizes.get(name, 0)
    yield group


def _read_job(
    connection: Connection,
    stored: Mapping[str, StoredDataset],
    name: str,
    **settings: Any,
) -> DetectionJob:
    if name not in stored:
        dataset_id(connection, name)  # which raises an error
    return DetectionJob.from_stored(connection, stored[name], **settings)


def _create_inputs(
    database: Database, artifacts: Artifacts, jobs: Mapping[str, DetectionJob], name: str
) -> None:
    create_inputs(database, artifacts, jobs[name])


def _each(
    names: Iterable[str], work: Callable[[str], R], failed: dict[str, Exception]
) -> dict[str, R]:
    """Return the results of some work on each dataset; the errors are added to ``failed``."""
    results = {}
    for name in names:
        try:
            results[name] = work(name)
        except (DatabaseAccessError, DBAPIError):  # a problem of the repository, not of a dataset
            raise
        except Exception as error:  # noqa: BLE001 - the other datasets are still scored
            failed[name] = error
    return results


def _start(
    connection: Connection, jobs: Mapping[str, DetectionJob], failed: dict[str, Exception]
) -> dict[str, Scoring[list[DetectorResult]]]:
    """Read the histories of datasets together and return the steps of their detections; each alone if that fails."""
    if not jobs:
        return {}
    try:
        return start_detections(connection, jobs)
    except (DatabaseAccessError, DBAPIError):  # a problem of the repository, not of a dataset
        raise
    except Exception as error:  # noqa: BLE001 - of one of the datasets
        if len(jobs) == 1:
            failed.update(dict.fromkeys(jobs, error))
            return {}
        alone = [_start(connection, {name: job}, failed) for name, job in jobs.items()]
        return {name: steps for item in alone for name, steps in item.items()}


def _complete_all(steps: Mapping[str, Scoring[R]], failed: dict[str, Exception]) -> dict[str, R]:
    """Return the results of detections, and answer their requests for scores together."""
    results: dict[str, R] = {}
    waiting: dict[str, tuple[Detector, ScoreRequest]] = {}
    answers: dict[str, Any] = dict.fromkeys(steps)

    def proceed(name: str) -> None:
        try:
            waiting[name] = steps[name].send(answers[name])
        except StopIteration as stop:
            results[name] = stop.value

    while answers or waiting:
        _each(answers, proceed, failed)
        answers = {}
        by_detector: dict[Detector, list[str]] = {}
        for name, (detector, _) in waiting.items():
            by_detector.setdefault(detector, []).append(name)
        if by_detector:
            # Answer the most frequent request; meanwhile others arrive at the same detector.
            detector, names = max(by_detector.items(), key=lambda item: len(item[1]))
            scores = _answers(detector, [waiting.pop(name)[1] for name in names])
            for name, answer in zip(names, scores, strict=True):
                if isinstance(answer, Exception):
                    failed[name] = answer
                else:
                    answers[name] = answer
    return results


def _answers(detector: Detector, requests: Sequence[ScoreRequest]) -> list[Any]:
    """Return a detector's result of each request, or the error that it raised."""
    try:
        return score_requests(detector, requests)
    except Exception as error:  # noqa: BLE001 - of one of the datasets
        if len(requests) == 1:
            return [error]
        return [result for request in requests for result in _answers(detector, [request])]


def _write(
    database: Database,
    results: Mapping[str, tuple[DetectionJob, Sequence[DetectorResult]]],
    failed: dict[str, Exception],
) -> set[str]:
    """Write the results of datasets in one transaction; return the names of the written datasets.

    Datasets in which another process detected meanwhile are not written. If a dataset fails, each is written in a
    transaction of its own.
    """
    if not results:
        return set()

    try:
        return set(database.write(lambda connection: write_results(connection, results)))
    except DatabaseAccessError:
        raise
    except Exception as error:  # noqa: BLE001 - of one of the datasets
        if len(results) == 1:
            failed.update(dict.fromkeys(results, error))
            return set()
        return {
            written
            for name, result in results.items()
            for written in _write(database, {name: result}, failed)
        }
