"""Answers to the dashboard's script, shared by the widget and the served page.

A served page opens its repository by `DashboardSource`, once, and again if its file was replaced.
"""

from __future__ import annotations

import getpass
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import (
    DatabaseAccessError,
    HistoryError,
    ReadOnlyError,
    TidegaugeError,
    UnknownNameError,
    describe,
)
from tidegauge.analyzers.core.formatting import hide_folders
from tidegauge.repository.history.health import open_incidents
from tidegauge.repository.history.versions import last_commit
from tidegauge.repository.repository import Repository
from tidegauge.repository.store.config import dashboard_url
from tidegauge.repository.store.engines import missing_file_message
from tidegauge.widgets import answers, compare, incidents, protocol, series, tables
from tidegauge.widgets.answers import EMPTY_MESSAGE, Answer, truncate
from tidegauge.widgets.consistency import Consistency
from tidegauge.widgets.series import Overview

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from tidegauge.repository.store.queries import AsOf

_LOGGER = logging.getLogger(__name__)

VIEW_NAMES = (
    "home",
    "overview",
    "series",
    "compare",
    "distribution",
    "consistency",
    "incidents",
    "partitions",
)
_DATASET_VIEWS = frozenset({"compare", "distribution", "consistency", "partitions"})
"""Views of a single dataset."""
_LABELLING_QUESTIONS = frozenset({"catalogue", "label_incident", "label_incidents"})
"""Questions whose handlers receive the known user as ``known_author``."""


class Backend:
    """Answer the questions of all pages about one repository, from several threads.

    Parameters
    ----------
    repository : Repository
    as_of : str, date, datetime or int, optional
        Show the overview and the series as known at that time, or after the run with that id.
    samples : bool
        If true, show samples of failing records, which are data of the tables.

    Attributes
    ----------
    questions : mapping of str to callable
        Handlers by the names of `protocol.QUESTION_TYPES`.
    """

    def __init__(
        self, repository: Repository, as_of: AsOf = None, *, samples: bool = False
    ) -> None:
        self.repository = repository
        self._url = dashboard_url()
        self._overview = Overview(repository, as_of)
        self._consistency = Consistency(repository)
        self.questions: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = {
            "catalogue": self._catalogue,
            "tables": lambda params: tables.tables(repository, params),
            "failures": lambda params: tables.failures(repository, params, samples=samples),
            "levels": self._overview.levels,
            "sparklines": self._overview.sparklines,
            "cell": self._overview.cell,
            "row_order": self._overview.row_order,
            "series": lambda params: series.series(self._overview, params),
            "seasons": lambda params: series.seasons(self._overview, params),
            "sides": lambda params: compare.sides(repository, params),
            "compare": lambda params: compare.compare(repository, params),
            "columns": lambda params: compare.columns(repository, params),
            "distribution": lambda params: compare.distribution(repository, params),
            "drifts": lambda params: compare.drifts(repository, params),
            "consistency": self._consistency.ranking,
            "consistency_sparklines": self._consistency.sparklines,
            "consistency_features": self._consistency.features,
            "incidents": lambda params: incidents.incidents(repository, params),
            "incident": lambda params: incidents.incident(repository, params, samples=samples),
            "label_incident": lambda params: incidents.label_incident(
                repository, params, params.get("known_author"), samples=samples
            ),
            "label_incidents": lambda params: incidents.label_incidents(
                repository, params, params.get("known_author")
            ),
            "partitions": lambda params: tables.partitions(repository, params),
            "partition": lambda params: tables.partition(repository, params),
            "csv": self._csv,
            "data": self._data,
            "svg": lambda params: answers.svg(repository, params, as_of),
            "commits": self._commits,
        }

    def first_view(self) -> str:
        """Return the first view to show: the list of tables, or the heat map of a single table."""
        return "home" if len(self.repository.datasets()) > 1 else "overview"

    def answer(self, message: Mapping[str, Any], author: str | None) -> tuple[Any, list[bytes]]:
        """Answer a message of the script with JSON and buffers; errors are also answers.

        Parameters
        ----------
        message : mapping
            ``id``, ``question``, ``params`` and ``catalogue``, as in `protocol`.
        author : str or None
            The known user, who becomes the author of labels; None if the page can name one.
        """
        started = time.perf_counter()
        reply, buffers = self._reply(message, author)
        duration = round(time.perf_counter() - started, 4)
        return {"id": message["id"], "seconds": duration, **reply}, buffers

    def frame(self, view: str, options: Mapping[str, Any], dataset: str | None) -> pd.DataFrame:
        """Return the data of a view; see `Dashboard.data`.

        Parameters
        ----------
        view : str
        options : mapping
            Last request of the view.
        dataset : str or None
            Dataset of the view; the first one if None.
        """
        return next(iter(self._frames(view, options, dataset).values()))()

    def _frames(
        self, view: str, options: Mapping[str, Any], dataset: str | None
    ) -> Mapping[str, Callable[[], pd.DataFrame]]:
        """Return functions that read the tables of a view by title; `Dashboard.data` is the first.

        In views with a list and charts, the charts have a table of their own.

        Raises
        ------
        UnknownNameError
            If the view is unknown.
        HistoryError
            If the view needs a dataset and the repository is empty.
        """
        repository = self.repository
        first_dataset = next(iter(repository.datasets()), None)
        params = {"dataset": dataset or first_dataset, **options}
        incident_id = params.get("id")
        evidence = {f"Incident {incident_id}": lambda: incidents.evidence(self._overview, params)}
        frames: Mapping[str, Mapping[str, Callable[[], pd.DataFrame]]] = {
            "home": {"Tables": lambda: tables.tables_frame(repository, params)},
            "overview": {"Heat map": lambda: self._overview.frame(params)},
            "series": {"Series": lambda: series.frame(self._overview, params)},
            "compare": {"Comparison": lambda: compare.compare_frame(repository, params)},
            "distribution": {
                "Distributions": lambda: compare.distribution_frame(repository, params),
                "Drift": lambda: compare.drift_frame(repository, params),
            },
            "consistency": {
                "Features": lambda: self._consistency.frame(params),
                "Charts": lambda: self._consistency.charts(params),
            },
            "incidents": {
                "Incidents": lambda: incidents.frame(repository, params),
                **({} if incident_id is None else evidence),
            },
            "partitions": {"Partitions": lambda: tables.calendar_frame(repository, params)},
        }
        if view not in frames:
            raise UnknownNameError("view", view, VIEW_NAMES)
        if view in _DATASET_VIEWS and params["dataset"] is None:
            raise HistoryError(EMPTY_MESSAGE)
        return frames[view]

    def _reply(
        self, message: Mapping[str, Any], author: str | None
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Return the answer to a message, or the error, without id and duration."""
        question = message.get("question")
        handler = self.questions.get(question) if isinstance(question, str) else None
        if handler is None:
            return {"error": f"Unknown question {question!r}.", "kind": "UnknownQuestion"}, []
        context = {"catalogue": message.get("catalogue")}
        if question in _LABELLING_QUESTIONS:
            context["known_author"] = author
        try:
            return handler({**(message.get("params") or {}), **context}).packed()
        except Exception as problem:  # noqa: BLE001 - every error is shown on the page
            return error_for_viewers(problem), []

    def _catalogue(self, params: Mapping[str, Any]) -> Answer:
        """Return the catalogue with the settings of the repository."""
        answer = self._overview.catalogue(params.get("table"))
        with self.repository.database.read() as connection:
            incident_count = open_incidents(connection, datetime.now(UTC))
        settings = {
            "open_incidents": incident_count,
            "datasets": self.repository.datasets(),
            "repository": truncate(self.repository.database.short_name),
            "writable": not self.repository.database.read_only,
            "author": params.get("known_author"),
            "url": self._url,
        }
        payload = cast("protocol.CatalogueAnswer", {**answer.payload, **settings})
        return Answer(payload, answer.arrays)

    def _csv(self, params: Mapping[str, Any]) -> Answer:
        """Return one table of a page as CSV; the first if no title is given."""
        frames = self._page_frames(params)
        title = params.get("title") or next(iter(frames))
        if title not in frames:
            raise UnknownNameError("table", title, frames)
        return answers.csv(frames[title](), str(params["view"]))

    def _data(self, params: Mapping[str, Any]) -> Answer:
        """Return all tables of a page as text."""
        return answers.data({title: read() for title, read in self._page_frames(params).items()})

    def _page_frames(self, params: Mapping[str, Any]) -> Mapping[str, Callable[[], pd.DataFrame]]:
        """Return functions that read the tables of a page, with its displayed rows and columns."""
        listed = {name: params[name] for name in ("rows", "columns") if name in params}
        return self._frames(str(params["view"]), {**params["options"], **listed}, params["dataset"])

    def _commits(self, _: Mapping[str, Any]) -> Answer:
        """Return the number of commits, so that the script detects changes."""
        with self.repository.database.read() as connection:
            payload: protocol.CommitsAnswer = {"commits": last_commit(connection)}
            return Answer(payload)


def current_user() -> str | None:
    """Return the name of the user; None for root, which identifies no person, or without a name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return None
    return None if name == "root" else name


def error_for_viewers(problem: Exception) -> dict[str, str]:
    """Return an error as an answer, without folders, servers and advice for operators.

    Parameters
    ----------
    problem : Exception
        Errors of SQLAlchemy are logged, because viewers do not see their messages.
    """
    kind = type(problem).__name__
    if isinstance(problem, ReadOnlyError):
        message = "This page is read-only: it cannot save labels or comments."
    elif type(problem).__module__.startswith("sqlalchemy"):
        message = "The database returned an error. See the server's log for its message."
        _LOGGER.warning("Question failed: %s", describe(problem))
    else:
        message = str(problem) if isinstance(problem, TidegaugeError) else describe(problem)
    return {"error": hide_folders(message), "kind": kind}


@dataclass(frozen=True)
class DashboardConfig:
    """Configuration of a served dashboard.

    Attributes
    ----------
    db : str
        URL of the database.
    artifacts : str or None
        Folder of large states.
    dataset : str or None
        The dataset to show first.
    read_only : bool
        If true, incidents cannot be labeled.
    samples : bool
        If true, show samples of failing records, which are data of the tables.
    """

    db: str
    artifacts: str | None = None
    dataset: str | None = None
    read_only: bool = False
    samples: bool = False


class DashboardSource:
    """Source of the backend of a server, which all pages share.

    Connections outlive the file that they opened, so they would not notice a restored or replaced
    SQLite file. Each question therefore checks whether the file is still the same.

    Parameters
    ----------
    config : DashboardConfig
    """

    def __init__(self, config: DashboardConfig) -> None:
        self._config = config
        self._opening_lock = Lock()
        self._backend: Backend | None = None
        self._file: tuple[int, int] | None = None

    def backend(self) -> Backend:
        """Return the backend of the current database.

        Raises
        ------
        DatabaseAccessError
            If its file is missing or cannot be opened.
        """
        with self._opening_lock:
            old = self._backend
            if old is not None and _identity(old.repository.database.file) == self._file:
                return old
            self.close()
            config = self._config
            # The dashboard must not upgrade the database: older releases could not write to it anymore.
            repository = Repository(
                config.db, artifacts=config.artifacts, read_only=config.read_only, upgrade=False
            )
            try:
                self._file = _identity(repository.database.file)
                self._backend = Backend(repository, samples=config.samples)
            except BaseException:
                repository.close()
                raise
            return self._backend

    def close(self) -> None:
        """Close the connections."""
        if self._backend is not None:
            self._backend.repository.close()
            self._backend = None


def _identity(file: Path | None) -> tuple[int, int] | None:
    """Return the device and inode of a database file; None for a database server.

    Raises
    ------
    DatabaseAccessError
        If the file does not exist.
    """
    if file is None:
        return None
    try:
        status = file.stat()
    except FileNotFoundError as error:
        raise DatabaseAccessError(missing_file_message(file)) from error
    return status.st_dev, status.st_ino
