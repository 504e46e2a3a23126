"""Export of the newest metrics in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import RepositoryError

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

    from tidegauge.repository.repository import Repository

_LABELS = ("dataset", "segment", "name", "instance", "analyzer", "partition")


def prometheus_text(repository: Repository, datasets: Sequence[str] | None = None) -> str:
    """Return gauges: newest value by series; newest partition time and open anomalies by dataset.

    Parameters
    ----------
    repository : Repository
    datasets : sequence of str, optional
        All if not given.

    Raises
    ------
    RepositoryError
        If ``prometheus-client`` is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.registry import Collector
    except ImportError as error:
        msg = "Prometheus' text needs a library: pip install 'tidegauge[prometheus]'"
        raise RepositoryError(msg) from error
    names = repository.datasets(retired=False) if datasets is None else list(datasets)

    class Newest(Collector):
        def collect(self) -> Iterator[Family]:
            return _families(repository, names)

    registry = CollectorRegistry()
    registry.register(Newest())
    return generate_latest(registry).decode()


def _families(repository: Repository, datasets: Sequence[str]) -> Iterator[Family]:
    from prometheus_client.core import GaugeMetricFamily

    values = GaugeMetricFamily("tidegauge_metric", "Newest value of a series.", labels=_LABELS)
    times = GaugeMetricFamily(
        "tidegauge_newest_partition_timestamp_seconds",
        "Time of the newest measured partition.",
        labels=("dataset",),
    )
    anomalies = GaugeMetricFamily(
        "tidegauge_open_anomalies", "Number of open anomalies.", labels=("dataset",)
    )
    for dataset in datasets:
        frame = repository.latest(dataset)
        for row in frame[~frame["status"].isin(["failed", "empty"])].to_dict("records"):
            values.add_metric([row[label] for label in _LABELS], row["value"])
        moments = [moment for moment in frame["time"] if isinstance(moment, datetime)]
        known = [moment for moment in moments if moment == moment]  # noqa: PLR0124 - drops NaT
        if known:
            times.add_metric([dataset], max(known).timestamp())
        anomalies.add_metric([dataset], float(len(repository.anomalies(dataset, status="open"))))
    yield from (values, times, anomalies)
