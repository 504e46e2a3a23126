"""Airflow operator that measures tables by their suite files.

It needs Airflow 3: ``pip install 'tidegauge[airflow]'``, or ``'tidegauge[airflow,postgres]'`` for a repository
in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidegauge.integrations.measuring import MeasurementTask
from tidegauge.outcome import Outcome
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey
    from pyspark.sql import SparkSession


class DashboardLink(BaseOperatorLink):
    """A button on a task that opens the dashboard."""

    name = "tidegauge"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the dashboard's address; empty if the task does not have one."""
        return getattr(operator, "dashboard_url", None) or ""


class TidegaugeOperator(BaseOperator):
    """Measure tables by suite files, detect anomalies, and notify.

    If the data is bad, the task fails without retries. The data is bad if checks or policies fail, or if
    there are anomalies and ``fail_on_anomaly`` is set. Known failures of past partitions do not count.

    If a table cannot be measured, the task fails and Airflow retries it. Retries are safe: stored partitions
    are not measured again, and two attempts never write at the same time.

    Parameters
    ----------
    suites : str or sequence of str
        Suite files, folders or globs. Templated.
    partitions : str or sequence of str
        As for `analyze`: ``"new"``, or ``"ds={{ ds }}"`` for the partition of the DAG run. Templated.
    db, artifacts : str, optional
        As for `Repository`. Templated, so that they can come from a connection or a variable.
    tags : mapping of str to str, optional
        Tags of the runs, in addition to ``dag_id``, ``task_id`` and ``dag_run_id``. Templated.
    fail_on_anomaly : bool
        Whether open anomalies in the partitions that were measured last fail the task.
    dashboard_url : str, optional
        Address of the dashboard, for the link on the task. Templated.
    session : callable
        Returns the Spark session of the worker. By default, it starts a session that the environment
        configures.
    **kwargs
        Arguments of Airflow's ``BaseOperator``.

    Returns
    -------
    dict
        The task's XCom: the outcome, runs by dataset, number of anomalies, failures, and the dashboard's address.

    Examples
    --------
    A task that measures the partition of the DAG run:

    >>> TidegaugeOperator(  # doctest: +SKIP
    ...     task_id="measure_orders",
    ...     suites="/suites/orders.yml",
    ...     partitions="ds={{ ds }}",
    ...     db="postgresql+psycopg://tidegauge@db/tidegauge",
    ...     artifacts="s3://bucket/tidegauge",
    ...     retries=2,
    ... )
    """

    template_fields: Sequence[str] = (
        "suites",
        "partitions",
        "db",
        "artifacts",
        "tags",
        "dashboard_url",
    )
    operator_extra_links = (DashboardLink(),)
    ui_color = "#d7ecf2"

    def __init__(
        self,
        *,
        suites: str | Sequence[str],
        partitions: str | Sequence[str] = "new",
        db: str | None = None,
        artifacts: str | None = None,
        tags: Mapping[str, str] | None = None,
        fail_on_anomaly: bool = False,
        dashboard_url: str | None = None,
        session: Callable[[], SparkSession] = spark_session,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.suites = suites
        self.partitions = partitions
        self.db = db
        self.artifacts = artifacts
        self.tags = tags
        self.fail_on_anomaly = fail_on_anomaly
        self.dashboard_url = dashboard_url
        self.session = session

    def execute(self, context: Context) -> dict[str, Any]:
        """Measure the tables, and return a summary of the results.

        Raises
        ------
        AirflowFailException
            If the data is bad.
        AirflowException
            If a table or an analyzer could not be measured.
        """
        task = context["ti"]
        tags = {"dag_id": task.dag_id, "task_id": task.task_id, "dag_run_id": task.run_id}
        result = MeasurementTask(
            self.suites,
            self.db,
            self.artifacts,
            self.fail_on_anomaly,
            self.dashboard_url,
            self.session,
        ).run(self.partitions, {**tags, **(self.tags or {})})
        self.log.info("%s", result.text)
        if result.outcome is Outcome.ERROR:
            raise AirflowException(result.text)
        if result.outcome is Outcome.FAILED:
            raise AirflowFailException(result.text)
        return result.as_json()
