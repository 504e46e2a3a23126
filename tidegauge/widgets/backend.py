"""Answers to the dashboard's script, the same for the widget and for the served page."""

from __future__ import annotations

import getpass
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import (
    HistoryError,
    ReadOnlyError,
    TidegaugeError,
    UnknownNameError,
    describe,
)
from tidegauge.analyzers.core.formatting import hide_folders
from tidegauge.repository.history.health import open_incidents
from tidegauge.repository.history.versions import last_commit
from tidegauge.repository.store.config import dashboard_url
from tidegauge.widgets import answers, compare, incidents, protocol, series, tables
from tidegauge.widgets.answers import Answer, shown
from tidegauge.widgets.consistency import Consistency
from tidegauge.widgets.series import Overview

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf

_LOGGER = logging.getLogger(__name__)

VIEWS = (
    "home",
    "overview",
    "series",
    "compare",
    "distribution",
    "consistency",
    "incidents",
    "partitions",
)
_OF_ONE_DATASET = frozenset({"compare", "distribution", "consistency", "partitions"})
_SIGNED = frozenset({"catalogue", "say", "say_all"})
"""Questions whose handlers are given the known user as ``author``."""


class Backend:
    """Answer the questions of any number of pages, from several threads, about one repository.

    Parameters
    ----------
    repository : Repository
    as_of : str, date, datetime or int, optional
        Show the overview and the series as known at that time, or after the run of that id.
    samples : bool
        Show samples of failing records, which are data of the tables.

    Attributes
    ----------
    questions : mapping of str to callable
        Handlers by the names of `protocol.QUESTIONS`.
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
            "tables": lambda asked: tables.tables(repository, asked),
            "failures": lambda asked: tables.failures(repository, asked, samples=samples),
            "levels": self._overview.levels,
            "rows": self._overview.rows,
            "cell": self._overview.cell,
            "order": self._overview.order,
            "series": lambda asked: series.series(self._overview, asked),
            "seasons": lambda asked: series.seasons(self._overview, asked),
            "sides": lambda asked: compare.sides(repository, asked),
            "compare": lambda asked: compare.compare(repository, asked),
            "merged": lambda asked: compare.merged(repository, asked),
            "columns": lambda asked: compare.columns(repository, asked),
            "distribution": lambda asked: compare.distribution(repository, asked),
            "drifts": lambda asked: compare.drifts(repository, asked),
            "consistency": self._consistency.ranking,
            "consistency_lines": self._consistency.lines,
            "consistency_features": self._consistency.features,
            "incidents": lambda asked: incidents.incidents(repository, asked),
            "incident": lambda asked: incidents.incident(repository, asked, samples=samples),
            "say": lambda asked: incidents.say(
                repository, asked, asked.get("author"), samples=samples
            ),
            "say_all": lambda asked: incidents.say_all(repository, asked, asked.get("author")),
            "partitions": lambda asked: tables.partitions(repository, asked),
            "day": lambda asked: tables.day(repository, asked),
            "csv": self._csv,
            "data": self._data,
            "svg": lambda asked: answers.svg(repository, asked, as_of),
            "pulse": self._pulse,
        }

    def first_view(self) -> str:
        """Return the view to begin with: the tables, or the heat map if there is only one."""
        return "home" if len(self.repository.datasets()) > 1 else "overview"

    def answer(self, message: Mapping[str, Any], author: str | None) -> tuple[Any, list[bytes]]:
        """Answer a message of the script with JSON and buffers; errors are answers, too.

        Parameters
        ----------
        message : mapping
            ``id``, ``ask``, ``about`` and ``catalogue``, as in `protocol`.
        author : str or None
            The known user, who signs labels; None if the page may name one.
        """
        started = time.perf_counter()
        told, buffers = self._told(message, author)
        spent = round(time.perf_counter() - started, 4)
        return {"id": message["id"], "seconds": spent, **told}, buffers

    def frame(self, view: str, options: Mapping[str, Any], dataset: str | None) -> pd.DataFrame:
        """Return the data of a view; see `Dashboard.data`."""
        return next(iter(self._frames(view, options, dataset).values()))()

    def _frames(
        self, view: str, options: Mapping[str, Any], dataset: str | None
    ) -> Mapping[str, Callable[[], pd.DataFrame]]:
        """Return what reads each table of a view's data by its title, that of `Dashboard.data` first.

        Of a list, the charts beside it are a table of their own.
        """
        repository = self.repository
        first = next(iter(repository.datasets()), None)
        asked = {"dataset": dataset or first, **options}
        chosen = asked.get("id")
        evidence = {f"Incident {chosen}": lambda: incidents.evidence(self._overview, asked)}
        frames: Mapping[str, Mapping[str, Callable[[], pd.DataFrame]]] = {
            "home": {"Tables": lambda: tables.tables_frame(repository, asked)},
            "overview": {"Heat map": lambda: self._overview.frame(asked)},
            "series": {"Series": lambda: series.frame(self._overview, asked)},
            "compare": {"Comparison": lambda: compare.compare_frame(repository, asked)},
            "distribution": {
                "Distributions": lambda: compare.distribution_frame(repository, asked),
                "Drift": lambda: compare.drift_frame(repository, asked),
            },
            "consistency": {
                "Features": lambda: self._consistency.frame(asked),
                "Charts": lambda: self._consistency.charts(asked),
            },
            "incidents": {
                "Incidents": lambda: incidents.frame(repository, asked),
                **({} if chosen is None else evidence),
            },
            "partitions": {"Partitions": lambda: tables.calendar_frame(repository, asked)},
        }
        if view not in frames:
            raise UnknownNameError("view", view, VIEWS)
        if view in _OF_ONE_DATASET and asked["dataset"] is None:
            msg = "the repository is empty: there is no dataset to show"
            raise HistoryError(msg)
        return frames[view]

    def _told(
        self, message: Mapping[str, Any], author: str | None
    ) -> tuple[dict[str, Any], list[bytes]]:
        ask = message.get("ask")
        question = self.questions.get(ask) if isinstance(ask, str) else None
        if question is None:
            return {"error": f"no question {ask!r}", "kind": "UnknownQuestion"}, []
        given = {"catalogue": message.get("catalogue")}
        if ask in _SIGNED:
            given["author"] = author
        try:
            return question({**(message.get("about") or {}), **given}).packed()
        except Exception as problem:  # noqa: BLE001 - every error is shown on the page
            return error_for_viewers(problem), []

    def _catalogue(self, asked: Mapping[str, Any]) -> Answer:
        answer = self._overview.catalogue(asked.get("table"))
        with self.repository.database.read() as connection:
            still = open_incidents(connection, datetime.now(UTC))
        settings = {
            "open": still,
            "datasets": self.repository.datasets(),
            "repository": _database_name(self.repository),
            "writable": not self.repository.database.read_only,
            "by": asked.get("author"),
            "url": self._url,
        }
        told = cast("protocol.CatalogueAnswer", {**answer.told, **settings})
        return Answer(told, answer.arrays)

    def _csv(self, asked: Mapping[str, Any]) -> Answer:
        frames = self._shown(asked)
        title = asked.get("title") or next(iter(frames))
        if title not in frames:
            raise UnknownNameError("table", title, frames)
        return answers.csv(frames[title](), str(asked["view"]))

    def _data(self, asked: Mapping[str, Any]) -> Answer:
        return answers.data({title: read() for title, read in self._shown(asked).items()})

    def _shown(self, asked: Mapping[str, Any]) -> Mapping[str, Callable[[], pd.DataFrame]]:
        listed = {name: asked[name] for name in ("rows", "columns") if name in asked}
        return self._frames(str(asked["view"]), {**asked["options"], **listed}, asked["dataset"])

    def _pulse(self, _: Mapping[str, Any]) -> Answer:
        """Return the commit count, by which the script detects changes."""
        with self.repository.database.read() as connection:
            told: protocol.PulseAnswer = {"commits": last_commit(connection)}
            return Answer(told)


def _database_name(repository: Repository) -> str:
    """Return the name of a database: of others' folders and servers a page tells nothing."""
    file = repository.database.file
    return shown((file.name if file else repository.database.url.database) or "")


def current_user() -> str | None:
    """Return the user's name; None for root, who is nobody, and where the system has no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return None
    return None if name == "root" else name


def error_for_viewers(problem: Exception) -> dict[str, str]:
    """Return an error as an answer: it tells viewers neither folders nor servers, nor what only the operator can do."""
    kind = type(problem).__name__
    if isinstance(problem, ReadOnlyError):
        text = "this page is read-only: labels and comments are not accepted here"
    elif type(problem).__module__.startswith("sqlalchemy"):
        text = "the database could not answer it; its message is in the server's log"
        _LOGGER.warning("a question failed: %s", describe(problem))
    else:
        text = str(problem) if isinstance(problem, TidegaugeError) else describe(problem)
    return {"error": hide_folders(text), "kind": kind}
