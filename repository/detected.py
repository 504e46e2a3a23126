"""The part of a repository that compares: anomalies, incidents, labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repository.frames import frame_of
from repository.history import AnyAnalyzer, AsOf, MetricQuery, Moment, Window
from repository.labels import LABEL_COLUMNS, add_label, add_range, label_rows
from repository.opened import Opened

if TYPE_CHECKING:
    import pandas as pd

    from repository.anomalies.backtest import Judge
    from repository.anomalies.causes import Causes
    from repository.anomalies.details import IncidentDetails
    from repository.anomalies.monitor import Monitor
    from repository.anomalies.rules import Rule


class Detected(Opened):
    """What stands out, and what people said of it."""

    def detect(
        self,
        dataset: str,
        monitors: Sequence[Monitor] | None = None,
        *,
        since: Moment = None,
        until: Moment = None,
        replay: bool = False,
    ) -> pd.DataFrame:
        """Score what is new, store scores, anomalies and incidents, and return the anomalies.

        Scored again is what comes after the first partition that was measured, or of which something
        was said, since the last detection.

        Parameters
        ----------
        dataset : str
        monitors : sequence of Monitor, optional
            Which detector watches which series; those of the dataset's last suite if not given, and
            the seasonal detector on everything if it has none.
        since, until
            Only points in this window can become anomalies; all earlier ones still teach.
        replay : bool
            Whether to score the whole history again. It gives the same, unless the detectors changed.

        Returns
        -------
        pandas.DataFrame
            As `anomalies` returns.
        """
        from repository.anomalies.detection import detect  # noqa: PLC0415 - numpy and scipy

        detect(
            self.database, self.artifacts, dataset, monitors, Window.of(since, until), replay=replay
        )
        return self.anomalies(dataset, since=since, until=until)

    def anomalies(
        self,
        dataset: str | None = None,
        *,
        status: str | None = None,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
        incident: int | None = None,
    ) -> pd.DataFrame:
        """Return what was found, the worst first.

        Parameters
        ----------
        dataset : str, optional
            All if not given.
        status : str, optional
            ``open`` for what nobody has settled.
        name, instance, analyzer, where, segment
            As for `metrics`.
        since, until
            Bounds on the partition's time, both included.
        as_of : datetime or int, optional
            What was known then, and what people had said of it.
        incident : int, optional
            Only what is in this incident.

        Returns
        -------
        pandas.DataFrame
            With the columns id, dataset, segment, partition, time, name, instance, analyzer, value,
            expected, lower, upper, direction, score, p_value, detector, severity, status,
            incident_id, version, explanation, detected_at.

        Raises
        ------
        HistoryError
            If there is no such incident.
        """
        from repository.anomalies.listing import ANOMALY_COLUMNS, anomaly_rows  # noqa: PLC0415

        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until))
        with self.database.read() as connection:
            rows = anomaly_rows(connection, dataset, status, query, as_of, incident)
        return frame_of(rows, ANOMALY_COLUMNS)

    def anomaly_counts(
        self,
        dataset: str | None = None,
        every: str = "1mo",
        *,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        since: Moment = None,
        until: Moment = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
    ) -> pd.DataFrame:
        """Return how often something was found, by windows of the partitions' time and by metrics.

        Parameters
        ----------
        dataset, name, instance, since, until, analyzer, where, segment
            As for `anomalies`.
        every : str
            ``1w``, ``7d``, ``12h``, ``1mo``, ``1q``, ``1y``, ...

        Returns
        -------
        pandas.DataFrame
            One row for each window and metric that had anomalies, with the columns start, end, name,
            instance, anomalies, series, partitions, incidents (how many of each). Start and end are
            missing for partitions without a time.

        Raises
        ------
        HistoryError
            If ``every`` is no window.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     len(repo.anomaly_counts(every="1w"))
        0
        """
        from repository.anomalies.verdicts import COUNT_COLUMNS, count_rows  # noqa: PLC0415

        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until))
        with self.database.read() as connection:
            rows = count_rows(connection, dataset, every, query)
        return frame_of(rows, COUNT_COLUMNS)

    def alarm_rates(self, dataset: str | None = None) -> pd.DataFrame:
        """Return how many alarms each detector gives now, and what people said of them.

        Parameters
        ----------
        dataset : str, optional
            All if not given.

        Returns
        -------
        pandas.DataFrame
            One row for each detector and a last one ``in all``, with the columns detector, anomalies,
            labelled, real (last called ``bad`` or ``acknowledged``), false (``expected`` or ``ignore``),
            false_share (of those labelled; NaN if none is), points (scored), per_1000 (anomalies in a
            thousand of them; NaN if there are none). What tidegauge said itself does not count.

        Raises
        ------
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.alarm_rates()["detector"].tolist()
        ['in all']
        """
        from repository.anomalies.verdicts import RATE_COLUMNS, rate_rows  # noqa: PLC0415

        with self.database.read() as connection:
            rows = rate_rows(connection, dataset)
        return frame_of(rows, RATE_COLUMNS)

    def backtest(
        self,
        dataset: str,
        detectors: Judge | Sequence[Judge],
        *,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        since: Moment = None,
        until: Moment = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
        rule: Rule | str | None = None,
        details: bool = False,
    ) -> pd.DataFrame:
        """Return what detectors would have found in the stored history. Nothing is stored.

        They learn as they would now: what people called ``expected``, ``bad`` or ``ignore`` teaches
        nothing, holidays are known. What people ignore can be found, and then is a false alarm.

        Parameters
        ----------
        dataset : str
        detectors : Detector, Monitor, str, or sequence of these
            A text is a detector's, as in ``OnlineNormal(2, 2)``.
        name, instance, analyzer, where, segment
            Only these series, as for `metrics`. Rules that count series see no others.
        since, until
            Only points in this window count; all earlier ones still teach.
        rule : Rule or str, optional
            What makes an anomaly of a score, in place of each one's own.
        details : bool
            Whether to return the anomalies themselves instead.

        Returns
        -------
        pandas.DataFrame
            One row for each detector, with the columns detector, rule, series and points (scored),
            anomalies, per_1000 (anomalies in a thousand points; NaN without any), incidents, found and
            missed (of what people called ``bad`` or ``acknowledged``: an incident, an anomaly of none, or
            a range), false (anomalies on points that they called ``expected`` or ``ignore``), false_share
            (of the anomalies that they judged), precision (share of real ones among the incidents that
            they judged), recall (found by found and missed), seconds. The shares are NaN where nobody
            said anything. What a detector of whole partitions finds is judged by the partition.

            With ``details``: one row for each anomaly, by detector and in order of time, with the columns
            detector, rule, segment, partition, time, name, instance, analyzer, value, expected, lower,
            upper, direction, score, p_value, severity, incident (counted for each detector), said
            (``real``, ``false`` or missing), explanation.

        Raises
        ------
        UnknownNameError
            If there is no such detector or rule, with the nearest that there is.
        SuiteError
            If nothing is to be tried, or something that is no detector.
        UnknownDatasetError

        Examples
        --------
        >>> import tidegauge as tg
        >>> from repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, *(day(n, rows=9 if n == 30 else 100 + n % 2) for n in range(1, 32)))
        ...     tried = ["OnlineNormal()", "SimpleThreshold(1000.0, lower_bound=50)"]
        ...     repo.backtest("d", tried, name="Size")["anomalies"].tolist()
        [1, 1]
        """
        from repository.anomalies import backtest  # noqa: PLC0415 - numpy and scipy
        from repository.anomalies.replaying import Past  # noqa: PLC0415

        monitors = backtest.monitors_of(detectors, rule)
        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until))
        with self.database.read() as connection:
            past = Past.read(connection, dataset, query)
        replays = [backtest.Replay.of(past, monitor) for monitor in monitors]
        if details:
            found = [row for replay in replays for row in replay.details(past)]
            return frame_of(found, backtest.DETAIL_COLUMNS)
        return frame_of([replay.row(past) for replay in replays], backtest.BACKTEST_COLUMNS)

    def incidents(
        self,
        dataset: str | None = None,
        *,
        status: str | None = None,
        since: Moment = None,
        until: Moment = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return anomalies that belong together, as incidents, the newest first.

        Parameters
        ----------
        dataset : str, optional
            All if not given.
        status : str, optional
            ``open``, ``acknowledged``, ``expected`` or ``resolved``.
        since, until
            Only those that overlap this range of partitions' times; both included.
        as_of : datetime or int, optional
            As they were known then.

        Returns
        -------
        pandas.DataFrame
            With the columns id, dataset, headline, severity, first, last (partitions), series (how many),
            status, updated_at.
        """
        from repository.anomalies.listing import INCIDENT_COLUMNS, incident_rows  # noqa: PLC0415

        with self.database.read() as connection:
            rows = incident_rows(connection, dataset, status, Window.of(since, until), as_of)
        return frame_of(rows, INCIDENT_COLUMNS)

    def incident(self, id: int) -> IncidentDetails:  # noqa: A002 - as users say it
        """Return all that is known of one incident.

        Parameters
        ----------
        id : int

        Returns
        -------
        IncidentDetails
            With ``row``, ``anomalies``, ``labels``, ``started``, ``firsts``, ``causes``, ``revision`` (for
            `label`), and ``explain()``, a text.

        Raises
        ------
        HistoryError
            If there is no such incident, or all its anomalies were withdrawn.

        Examples
        --------
        >>> import tidegauge as tg
        >>> with tg.Repository("sqlite://") as repo:
        ...     repo.incident(1)
        Traceback (most recent call last):
            ...
        analyzers.errors.HistoryError: there is no incident 1; repo.incidents() lists their ids
        """
        from repository.anomalies.details import incident_details  # noqa: PLC0415 - numpy

        with self.database.read() as connection:
            return incident_details(connection, id)

    def causes(self, id: int) -> Causes:  # noqa: A002 - as users say it
        """Return what is known of why something is an anomaly.

        Parameters
        ----------
        id : int
            Of an anomaly or an incident; they share one sequence.

        Returns
        -------
        Causes
            With ``moves``: metrics cut into parts, which are segments, filters such as
            ``origin = 'EWR'`` and, for ``Size``, the bins of histograms; and ``companions``: series that
            moved along. Both are empty where nothing is known. ``frame()`` has a row for each part, and
            ``str()`` is a text. What was expected is what the anomaly's detector expected, else the median
            of the last eight values of the same weekday (and hour).

        Raises
        ------
        HistoryError
            If there is no such anomaly or incident.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from repository.anomalies.monitor import Monitor
        >>> from repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     days = [day(n, rows=10, groups={("a",): 6, ("b",): 4}) for n in range(1, 9)]
        ...     _ = commit(repo, *days, day(9, rows=7, groups={("a",): 3, ("b",): 4}))
        ...     found = repo.detect("d", [Monitor({"name": "Size"}, "SimpleThreshold(99, 8)")])
        ...     print(repo.causes(found["id"][0]))
        Size in ds=2013-01-09 is 7 instead of 10. By s: a lost 50 %; a alone makes 100 % of it.
        """
        from repository.anomalies.details import causes_of  # noqa: PLC0415 - numpy

        with self.database.read() as connection:
            return causes_of(connection, id)

    def label_range(
        self,
        dataset: str,
        label: str,
        *,
        since: Moment = None,
        until: Moment = None,
        name: str | None = None,
        instance: str | None = None,
        segment: str | None = None,
        note: str | None = None,
        by: str | None = None,
    ) -> None:
        """Say something of all points in a range of time, whether there are anomalies or not.

        Parameters
        ----------
        dataset : str
        label : str
            ``expected`` or ``bad``: its points are no example for later ones. ``ignore``: nor are they
            anomalies. ``rebaseline``: a new level begins with its first.
        since, until
            Bounds on the partition's time, both included; one of them may be left open.
        name, instance, segment : str, optional
            Only these series; all if not given.
        note, by : str, optional
            Why, and who says so.

        Raises
        ------
        UnknownNameError, HistoryError, UnknownDatasetError
        """
        series = {"name": name, "instance": instance, "segment": segment}
        add_range(self.database, dataset, label, Window.of(since, until), series, note, by)

    def label(
        self,
        id: int,  # noqa: A002 - as users say it
        label: str,
        *,
        note: str | None = None,
        by: str | None = None,
        seen: int | None = None,
    ) -> None:
        """Say something of an anomaly or incident. Labels add up, and the last one tells the status.

        Parameters
        ----------
        id : int
            Of an anomaly or an incident; they share one sequence.
        label : str
            ``acknowledged``, ``expected``, ``bad``, ``ignore``, ``resolved``, ``reopened`` or
            ``rebaseline``.
        note, by : str, optional
            Why, and who says so.
        seen : int, optional
            The ``revision`` that `incident` gave: nothing is said if something newer was said meanwhile
            of the incident or one of its anomalies, by people or by tidegauge itself. Of an anomaly that
            is in no incident it is the anomaly's own last label that counts. 0 is: nothing was said yet.
            If not given, it is said whatever others said.

        Raises
        ------
        UnknownNameError, HistoryError
        ConflictError
            If something was said that the caller has not seen.

        Examples
        --------
        >>> import tidegauge as tg
        >>> from repository.testing import commit, day
        >>> with tg.Repository("sqlite://") as repo:
        ...     _ = commit(repo, day(1, rows=10), day(2, rows=99))
        ...     _ = repo.detect("d", [tg.Monitor({"name": "Size"}, "SimpleThreshold(50)")])
        ...     one = repo.incident(repo.incidents("d")["id"][0])
        ...     repo.label(one.id, "acknowledged", by="ann", seen=one.revision)
        ...     try:
        ...         repo.label(one.id, "expected", by="bob", seen=one.revision)
        ...     except tg.ConflictError as error:
        ...         [(label["by"], label["label"]) for label in error.labels]
        [('ann', 'acknowledged')]
        """
        add_label(self.database, id, label, note, by, seen)

    def labels(self, dataset: str | None = None, *, as_of: AsOf = None) -> pd.DataFrame:
        """Return everything that was said, in order.

        Parameters
        ----------
        dataset : str, optional
            All if not given.
        as_of : datetime or int, optional
            As for `metrics`.

        Returns
        -------
        pandas.DataFrame
            With the columns dataset, anomaly_id, incident_id, partition, name, instance, since, until, label,
            note, by, created_at.
        """
        with self.database.read() as connection:
            rows = label_rows(connection, dataset, as_of)
        return frame_of(rows, LABEL_COLUMNS)

    def scores(
        self,
        dataset: str,
        *,
        name: str | Sequence[str] | None = None,
        instance: str | None = None,
        since: Moment = None,
        until: Moment = None,
        analyzer: AnyAnalyzer | str | None = None,
        where: str | None = None,
        segment: str | None = None,
        as_of: AsOf = None,
    ) -> pd.DataFrame:
        """Return what detectors said of every point that they scored, anomaly or not.

        Parameters
        ----------
        dataset, name, instance, since, until, analyzer, where, segment, as_of
            As for `metrics`.

        Returns
        -------
        pandas.DataFrame
            With the columns dataset, segment, partition, time, name, instance, analyzer, detector,
            score, p_value, expected, lower, upper, version; the bounds are NaN where a detector
            has none.
        """
        from repository.anomalies.listing import SCORE_COLUMNS, score_rows  # noqa: PLC0415

        query = MetricQuery(name, instance, segment, where, analyzer, Window.of(since, until))
        with self.database.read() as connection:
            rows = score_rows(connection, dataset, query, as_of)
        return frame_of(rows, SCORE_COLUMNS)
