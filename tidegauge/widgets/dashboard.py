"""The dashboard widget: the kernel side that responds to its script."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import SetupError, TidegaugeError, UnknownNameError, describe
from tidegauge.repository.history.points import last_commit
from tidegauge.repository.history.tables import open_incidents
from tidegauge.repository.repository import as_repository
from tidegauge.repository.store.config import dashboard_url
from tidegauge.repository.store.queries import commit_as_of
from tidegauge.widgets import compare as comparison
from tidegauge.widgets import distribution, exports, protocol, script
from tidegauge.widgets import incidents as inbox
from tidegauge.widgets import partitions as ledger
from tidegauge.widgets import series as charts
from tidegauge.widgets import tables as home
from tidegauge.widgets.answer import Answer
from tidegauge.widgets.consistency import Consistency
from tidegauge.widgets.overview import LEVELS, Overview

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    msg = "the dashboard needs anywidget: pip install 'tidegauge[notebook]'"
    raise SetupError(msg) from error

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf

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


class Dashboard(anywidget.AnyWidget):
    """Interactive dashboard: tables, heat map, charts, comparisons, incidents, calendar.

    It is displayed as the last expression of a cell. Data on the screen is fetched on demand, as
    bytes, and no other host is contacted.

    Parameters
    ----------
    repository : Repository or str
        A repository, or its URL. If it was opened with ``read_only=True``, incidents cannot be labelled.
    dataset : str, optional
        The dataset to show first; the first one if not given. Home, overview and incidents show all.
    view : str, optional
        ``home``, ``overview``, ``series``, ``compare``, ``distribution``, ``consistency``,
        ``incidents`` or ``partitions``; ``home`` of several tables and ``overview`` of one if not
        given.
    by : str, optional
        Author of labels; the user's name if not given. The page asks for it if it is empty, or if the
        user is root.
    as_of : datetime or int, optional
        Show the overview and the series as known at that time, or after the run of that id. All
        else is current.
    height : int
        In pixels; 0 is the height of the window.

    Attributes
    ----------
    view, dataset : str
        The current view and dataset; setting them switches the page.
    options : dict
        The last request of each view, by its name: ``{"series": {"ids": [3, 7]}}``,
        ``{"incidents": {"id": 337}}``. Together with ``view`` and ``dataset`` it is the state of the
        page: assigning it restores the page.

    Raises
    ------
    SetupError
        If the dashboard's script was not built, with the reason.
    UnknownNameError
        If there is no such view.
    UnknownDatasetError
        If there is no such dataset.

    Examples
    --------
    >>> import tidegauge as tg
    >>> with tg.Repository("sqlite://") as repo:
    ...     repo.record("orders", "revenue", 1250.5, partition="ds=2013-02-08")
    ...     tg.Dashboard(repo).data.shape
    1
    (1, 1)
    """

    _esm = script.source(script.SCRIPT)
    _css = script.source(script.STYLE)

    view = traitlets.Unicode("home").tag(sync=True)
    dataset = traitlets.Unicode(allow_none=True).tag(sync=True)
    options = traitlets.Dict().tag(sync=True)
    height = traitlets.Int(720).tag(sync=True)
    in_address = traitlets.Bool(default_value=False).tag(sync=True)
    """Whether the state is kept in the address of the page, which must be the dashboard's own."""

    def __init__(
        self,
        repository: Repository | str,
        dataset: str | None = None,
        *,
        view: str | None = None,
        by: str | None = None,
        as_of: AsOf = None,
        height: int = 720,
    ) -> None:
        why = script.problem()
        if why is not None:
            msg = f"the dashboard has no script: {why}; {script.CURE}"
            raise SetupError(msg)
        repository = as_repository(repository)
        there = repository.datasets()
        if dataset is not None:
            repository.partitions(dataset)  # raises if unknown
        with repository.database.read() as connection:
            commit_as_of(connection, as_of)  # likewise
        self.repository = repository
        self.by = _user() if by is None else by or None
        self._url = dashboard_url()
        self._overview = Overview(repository, as_of)
        self._consistency = Consistency(repository)
        self._questions: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = {
            "catalogue": self._catalogue,
            "tables": lambda asked: home.tables(repository, asked),
            "levels": self._overview.levels,
            "rows": self._overview.rows,
            "cell": self._overview.cell,
            "series": lambda asked: charts.series(self._overview, asked),
            "sides": lambda asked: comparison.sides(repository, asked),
            "compare": lambda asked: comparison.compare(repository, asked),
            "columns": lambda asked: distribution.columns(repository, asked),
            "distribution": lambda asked: distribution.distribution(repository, asked),
            "drifts": lambda asked: distribution.drifts(repository, asked),
            "consistency": self._consistency.ranking,
            "consistency_lines": self._consistency.lines,
            "consistency_features": self._consistency.features,
            "incidents": lambda asked: inbox.incidents(repository, asked),
            "incident": lambda asked: inbox.incident(repository, asked),
            "say": lambda asked: inbox.say(repository, asked, self.by),
            "say_all": lambda asked: inbox.say_all(repository, asked, self.by),
            "partitions": lambda asked: ledger.partitions(repository, asked),
            "day": lambda asked: ledger.day(repository, asked),
            "csv": lambda _: exports.csv(self.data, self.view),
            "svg": lambda asked: exports.svg(repository, asked, as_of),
            "pulse": self._pulse,
        }
        super().__init__(
            view=view or ("home" if len(there) > 1 else "overview"),
            dataset=dataset or next(iter(there), None),
            height=height,
            options={},
        )
        self.on_msg(self._answer)

    @traitlets.validate("view")
    def _known_view(self, proposal: Mapping[str, Any]) -> str:
        view = str(proposal["value"])
        if view not in VIEWS:
            raise UnknownNameError("view", view, VIEWS)
        return view

    @property
    def data(self) -> pd.DataFrame:
        """The full data of the current view as a frame.

        ``home``: the health of all tables, the worst first. ``overview``: scores, a row for each series and a column for each time. ``series``: a row for
        each point. ``compare``: as `Repository.compare`. ``distribution``: as
        ``repo.drift(...).frame()``. ``consistency``: a row for each feature, the worst first.
        ``incidents``: as `Repository.incidents`. ``partitions``: as `Repository.calendar`.

        Raises
        ------
        HistoryError
            If a required option of the view is missing or misspelt; the message names it.
        """
        first = next(iter(self.repository.datasets()), None)
        asked = {"dataset": self.dataset or first, **self.options.get(self.view, {})}
        frames: Mapping[str, Callable[[], pd.DataFrame]] = {
            "home": lambda: home.frame(self.repository, asked),
            "overview": lambda: self._overview.frame(
                asked.get("by", next(iter(LEVELS))), asked.get("table")
            ),
            "series": lambda: charts.frame(self._overview, asked),
            "compare": lambda: comparison.frame(self.repository, asked),
            "distribution": lambda: distribution.frame(self.repository, asked),
            "consistency": lambda: self._consistency.frame(asked),
            "incidents": lambda: inbox.frame(self.repository, asked),
            "partitions": lambda: ledger.frame(self.repository, asked),
        }
        return frames[self.view]()

    def _catalogue(self, asked: Mapping[str, Any]) -> Answer:
        answer = self._overview.catalogue()
        writable = not self.repository.database.read_only
        with self.repository.database.read() as connection:
            still = open_incidents(connection, datetime.now(UTC))
        settings = {
            "open": still,
            "datasets": self.repository.datasets(),
            "writable": writable,
            "by": self.by,
            "url": self._url,
        }
        told = cast("protocol.CatalogueAnswer", {**answer.told, **settings})
        return Answer(told, answer.arrays)

    def _pulse(self, asked: Mapping[str, Any]) -> Answer:
        """Return the commit count, by which the script detects changes."""
        with self.repository.database.read() as connection:
            told: protocol.PulseAnswer = {"commits": last_commit(connection)}
            return Answer(told)

    def _answer(self, _: Any, asked: Any, buffers: Any) -> None:
        """Respond to a request of the script; errors are sent too, since Jupyter would swallow them."""
        if not isinstance(asked, Mapping) or "id" not in asked:
            return
        started = time.perf_counter()
        about = {**(asked.get("about") or {}), "catalogue": asked.get("catalogue")}
        answer, buffers = self._told(asked.get("ask"), about)
        seconds = round(time.perf_counter() - started, 4)
        self.send({"id": asked["id"], "seconds": seconds, **answer}, buffers)

    def _told(self, ask: Any, about: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        question = self._questions.get(ask)
        if question is None:
            return {"error": f"no question {ask!r}", "kind": "UnknownQuestion"}, []
        try:
            return question(about).packed()
        except TidegaugeError as problem:
            return {"error": str(problem), "kind": type(problem).__name__}, []
        except Exception as problem:  # noqa: BLE001 - every error is shown on the page
            return {"error": describe(problem), "kind": type(problem).__name__}, []

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the widget; saved notebooks without widgets fall back to the repository's HTML."""
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        if self.in_address:  # a served page is not saved, and does not say where the database lies
            return data, metadata
        return {**data, "text/html": self.repository._repr_html_()}, metadata


def _user() -> str | None:
    """Return the user's name; None for root, who is nobody, and where the system has no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return None
    return None if name == "root" else name
