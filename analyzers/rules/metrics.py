"""What rules and fixes counted, as metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from analyzers.metric import Failure, Metric, attempt, flatten
from analyzers.partitions import Partition
from analyzers.rules.layout import Tasks
from analyzers.rules.measures import analyzers_of
from analyzers.rules.parser_measures import parser_analyzers
from analyzers.rules.state import Tally

if TYPE_CHECKING:
    import pandas as pd

    from analyzers.rules.applied import Applied


def metrics_of(found: Tally, tasks: Tasks) -> Iterator[Metric[float]]:
    """Yield what was counted in one group as plain metrics."""
    for one in analyzers_of(tasks):
        outcome = attempt(partial(one.fold, [found]))
        yield from flatten(
            one.to_failure_metric(outcome.error)
            if isinstance(outcome, Failure)
            else one.compute_metric_from(outcome.value)
        )


def metrics_frame(applied: Applied) -> pd.DataFrame:
    """Return the metrics of all partitions as a frame."""
    import pandas as pd  # noqa: PLC0415

    columns = "partition", "entity", "name", "instance", "value", "weight", "status", "error"
    rows = []
    groups: list[tuple[str, Iterable[Metric[float]]]] = [
        (Partition(applied.by, values).name, metrics_of(found, applied.dqm.tasks))
        for values, found in sorted(applied.tallies.items())
    ]
    if applied.parsed is not None:
        of = parser_analyzers(applied.parsed)
        groups.append(("", (one.compute_metric_from(one.fold([applied.parsed])) for one in of)))
    for name, metrics in groups:
        for metric in metrics:
            status = "empty" if metric.empty else "failed" if metric.failed else "finite"
            value = float("nan") if metric.failed else metric.value
            error = str(metric.outcome.error) if metric.failed else None  # type: ignore[union-attr]
            about = (str(metric.entity), metric.name, metric.instance)
            rows.append((name, *about, value, metric.weight, status, error))
    return pd.DataFrame(rows, columns=list(columns))
