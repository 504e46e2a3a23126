"""Compute metrics without a repository: `calculate` from data, `merge_states` from stored states."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, cast, overload

from tidegauge.analysis import open_named
from tidegauge.analyzers.columnar.engines import MeasuringEngine, as_engine
from tidegauge.analyzers.core.analyzer import (
    Analyzer,
    AnyAnalyzer,
    StateLoader,
    StatePersister,
    check_provider,
)
from tidegauge.analyzers.core.errors import SuiteError, UnknownNameError
from tidegauge.analyzers.core.metric import Failure, Metric, Success, flatten
from tidegauge.analyzers.core.state import State, as_state
from tidegauge.analyzers.runs.runner import measure_without_spark
from tidegauge.analyzers.scan.scan import Outcome, measure, metric_of, scan
from tidegauge.analyzers.scan.spark_errors import explained_read_errors

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


class Metrics(list[Metric[Any]]):
    """Metrics of several analyzers, in the order of the request.

    A list with lookup by analyzer. Notebooks show it as a table.

    Parameters
    ----------
    measured : mapping of Analyzer to Metric
        Each analyzer's metric.
    requested : iterable of Analyzer, optional
        The analyzers in the order of the result. If an analyzer is requested twice, its metric is in the
        list twice.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import NumMatches, Size
    >>> metrics = Metrics({Size(): Size().compute_metric_from(NumMatches(3))})
    >>> metrics[0].value, metrics[Size()].value
    (3.0, 3.0)
    >>> metrics
       name instance  value   entity  weight analyzer
    0  Size        *    3.0  Dataset     3.0   Size()
    empty: error
    >>> metrics.json()
    '[{"entity": "Dataset", "instance": "*", "name": "Size", "value": 3.0, "weight": 3, "error": null, "analyzer": "Size()"}]'
    """

    def __init__(
        self,
        measured: Mapping[AnyAnalyzer, Metric[Any]],
        requested: Iterable[AnyAnalyzer] | None = None,
    ) -> None:
        self._measured = dict(measured)
        self._requested = tuple(measured if requested is None else requested)
        super().__init__(self._measured[analyzer] for analyzer in self._requested)

    @overload
    def __getitem__(self, key: AnyAnalyzer) -> Metric[Any]: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        """Return the metric of an analyzer or at an index.

        Raises
        ------
        UnknownNameError
            If the analyzer was not requested.
        """
        if not isinstance(key, Analyzer):
            return super().__getitem__(key)
        if key not in self._measured:
            raise UnknownNameError("analyzer", repr(key), list(map(repr, self._measured)))
        return self._measured[key]

    def __repr__(self) -> str:
        """Return the numbers as a table, as `frame` prints it."""
        return repr(self.frame())

    def frame(self) -> pd.DataFrame:
        """Return a tidy frame, one row for each number.

        Returns
        -------
        pandas.DataFrame
            With the columns entity, instance, name (such as ``Histogram.abs.x`` for metrics with several
            numbers), value (NaN if it failed), weight, error, analyzer.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.counts import Completeness, NumMatchesAndCount
        >>> email = Completeness("email")
        >>> metrics = Metrics({email: email.compute_metric_from(NumMatchesAndCount(3, 4))})
        >>> metrics.frame()[["instance", "name", "value", "weight"]].values.tolist()
        [['email', 'Completeness', 0.75, 4.0]]
        """
        from tidegauge.repository.store.frames import columns, frame_of

        kinds = columns("entity instance name value:number weight:number error analyzer")
        return frame_of(list(self._rows()), kinds)

    def json(self) -> str:
        """Return the rows of `frame` as a JSON array; NaN and infinities are strings, as in ``"NaN"``.

        Examples
        --------
        >>> from tidegauge.analyzers.measures.counts import Completeness, NumMatchesAndCount
        >>> email = Completeness("email")
        >>> metrics = Metrics({email: email.compute_metric_from(NumMatchesAndCount(3, 4))})
        >>> print(metrics.json())
        [{"entity": "Column", "instance": "email", "name": "Completeness", "value": 0.75, "weight": 4, "error": null, "analyzer": "Completeness('email')"}]
        """
        rows = [{**row, "value": _json_number(row["value"])} for row in self._rows()]
        return json.dumps(rows, ensure_ascii=False, allow_nan=False)

    def _rows(self) -> Iterator[dict[str, Any]]:
        for analyzer, metric in zip(self._requested, self, strict=True):
            for part in flatten(metric):
                value, error = None, None
                if isinstance(part.outcome, Failure):
                    error = str(part.outcome.error)
                else:
                    value = part.outcome.value
                yield {
                    "entity": str(part.entity),
                    "instance": part.instance,
                    "name": part.name,
                    "value": value,
                    "weight": part.weight,
                    "error": error,
                    "analyzer": repr(analyzer),
                }

    def _repr_html_(self) -> str:
        from tidegauge.display.frames import render_frame

        return render_frame(self.frame())


def _json_number(value: float | None) -> float | str | None:
    return value if value is None or isfinite(value) else str(value).replace("nan", "NaN")


def calculate(
    data: DataFrame | str,
    analyzers: Sequence[AnyAnalyzer],
    *,
    aggregate_with: StateLoader | None = None,
    save_states_with: StatePersister | None = None,
    spark: SparkSession | None = None,
    engine: str = MeasuringEngine.AUTO,
) -> Metrics:
    """Compute the metrics of several analyzers over all rows of a DataFrame, table or folder, in the given order.

    Parameters
    ----------
    data : DataFrame or str
        The rows to measure: a DataFrame, a table's name, or a folder of Parquet files or of a Delta table
        (anything with a slash). DataFrames are measured by Spark. Tables and folders are measured [without
        Spark SQL](performance.md#without-spark) as far as the results are exactly the same.
    analyzers : sequence of Analyzer
        The analyzers to compute.
    aggregate_with : StateLoader, optional
        Stored states to add to the states of the data. The metrics then describe both.
    save_states_with : StatePersister, optional
        Where to store the states behind the metrics. It can be the same provider. A failed analyzer stores
        no state.
    spark : SparkSession, optional
        With a table or folder: the session (default: the active session). It is used only if it is needed.
    engine : str
        With a table or folder: ``auto``, or ``spark`` to measure everything by Spark SQL.

    Returns
    -------
    Metrics
        A list with `frame`, `json` and lookup by analyzer. An analyzer that cannot be computed has a failed
        metric.

    Raises
    ------
    SourceError
        If ``data`` is not a Spark DataFrame, is a stream, or is a table or folder that cannot be read.
    SuiteError
        If ``analyzers`` are not analyzers, or an option is not a state provider or engine.
    StateError, OSError
        If stored states cannot be read, added or written.

    Examples
    --------
    >>> import tidegauge as tg
    >>> people = tg.spark_session().sql("SELECT explode(array('a@x.org', NULL)) AS email")  # doctest: +SKIP
    >>> metrics = tg.calculate(people, [tg.Size(), tg.Completeness("email")])  # doctest: +SKIP
    >>> metrics[tg.Size()].value, metrics.frame()["value"].tolist()  # doctest: +SKIP
    (2.0, [2.0, 0.5])
    >>> tg.calculate("lake/people", [tg.Size()])[0].value  # doctest: +SKIP
    2.0
    """
    requested = _validate_analyzers(analyzers, "tg.calculate(data, [tg.Size()])")
    chosen_engine = as_engine(engine)
    check_provider(aggregate_with, "load", "aggregate_with")
    check_provider(save_states_with, "persist", "save_states_with")
    if not requested:
        return Metrics({})
    needs_states = aggregate_with is not None or save_states_with is not None
    outcomes, metrics = _measured(data, requested, spark, chosen_engine, needs_states=needs_states)
    if aggregate_with is not None:
        stored_by_statistic = _load_by_statistic(requested, aggregate_with.load)
        for analyzer, outcome in outcomes.items():
            stored = stored_by_statistic[analyzer.statistic()]
            if isinstance(outcome, Success) and stored is not None:
                outcomes[analyzer] = Success(outcome.value + stored)
    if save_states_with is not None:
        states = {
            a.statistic(): (a, o.value) for a, o in outcomes.items() if isinstance(o, Success)
        }
        for analyzer, state in states.values():
            save_states_with.persist(analyzer, state)
    return Metrics({**metrics, **{a: metric_of(a, o) for a, o in outcomes.items()}}, requested)


def _measured(
    data: DataFrame | str,
    analyzers: Sequence[AnyAnalyzer],
    spark: SparkSession | None,
    engine: MeasuringEngine,
    *,
    needs_states: bool,
) -> tuple[dict[AnyAnalyzer, Outcome], Mapping[AnyAnalyzer, Metric[Any]]]:
    """Return outcomes, and metrics of the analyzers for which Spark returned no states."""
    source, outcomes = None, dict[AnyAnalyzer, Outcome]()
    if isinstance(data, str):
        source = open_named(data, spark=spark)
        if engine is MeasuringEngine.AUTO:
            outcomes = measure_without_spark(source, analyzers)
    rest = [analyzer for analyzer in analyzers if analyzer not in outcomes]
    if not rest:
        return outcomes, {}
    with explained_read_errors():
        frame = cast("DataFrame", data) if source is None else source.read()
        if not needs_states:
            return outcomes, measure(frame, rest)
        return {**outcomes, **scan(frame, rest).single_group.states}, {}


def merge_states(
    providers: Iterable[StateLoader],
    analyzers: Sequence[AnyAnalyzer],
    *,
    save_states_with: StatePersister | None = None,
) -> Metrics:
    """Compute metrics from the merged states of several providers, without reading data.

    In Deequ, this is ``runOnAggregatedStates``. A provider without an analyzer's state counts as no data.

    Parameters
    ----------
    providers : iterable of StateLoader
        The providers of the stored states.
    analyzers : sequence of Analyzer
        The analyzers to compute.
    save_states_with : StatePersister, optional
        Where to store the merged states.

    Returns
    -------
    Metrics

    Raises
    ------
    SuiteError
        If ``providers`` are not state providers, or ``analyzers`` not analyzers.
    StateError, OSError
        If states cannot be read, added or written.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.analyzers.measures.counts import NumMatches
    >>> days = tg.InMemoryStateProvider(), tg.InMemoryStateProvider()
    >>> for day in days:
    ...     day.persist(tg.Size(), NumMatches(3))
    >>> tg.merge_states(days, [tg.Size()])[tg.Size()].value
    6.0
    """
    requested = _validate_analyzers(analyzers, "tg.merge_states(providers, [tg.Size()])")
    untyped: Any = providers
    if isinstance(untyped, str) or not isinstance(untyped, Iterable):
        msg = f"give state providers as a list, as in tg.merge_states([a, b], analyzers), not {untyped!r}"
        raise SuiteError(msg)
    provider_list = list(untyped)
    for provider in provider_list:
        check_provider(provider, "load", "merge_states")
    check_provider(save_states_with, "persist", "save_states_with")

    def merged(analyzer: AnyAnalyzer) -> State | None:
        states = [
            state for provider in provider_list if (state := provider.load(analyzer)) is not None
        ]
        if not states:
            return None
        state = analyzer.state_type.merge(
            as_state(analyzer.state_type, stored) for stored in states
        )
        if save_states_with is not None:
            save_states_with.persist(analyzer, state)
        return state

    merged_by_statistic = _load_by_statistic(requested, merged)
    return Metrics(
        {a: a.compute_metric_from(merged_by_statistic[a.statistic()]) for a in requested}, requested
    )


def _load_by_statistic(analyzers: Iterable[AnyAnalyzer], load: Any) -> dict[str, State | None]:
    """Load each state once. Analyzers with the same statistic share a state."""
    analyzer_by_statistic = {analyzer.statistic(): analyzer for analyzer in analyzers}
    return {statistic: load(analyzer) for statistic, analyzer in analyzer_by_statistic.items()}


def _validate_analyzers(analyzers: Any, example: str) -> tuple[AnyAnalyzer, ...]:
    if isinstance(analyzers, Analyzer | str | type) or not isinstance(analyzers, Iterable):
        msg = f"give analyzers as a list, as in {example}, not {analyzers!r}"
        raise SuiteError(msg)
    result = tuple(analyzers)
    for analyzer in result:
        if not isinstance(analyzer, Analyzer):
            msg = f"{analyzer!r} is not an analyzer such as tg.Size()"
            raise SuiteError(msg)
    return result
