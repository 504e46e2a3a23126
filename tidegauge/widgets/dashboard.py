"""The dashboard widget: it answers what its script asks for."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from analyzers.errors import SetupError, TidegaugeError, UnknownNameError, describe
from repository.history import commit_as_of
from tidegauge.widgets import charts, comparison, distribution, inbox, ledger, script
from tidegauge.widgets.answer import Answer
from tidegauge.widgets.consistency import Consistency
from tidegauge.widgets.overview import LEVELS, Overview, commits_of

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    msg = "the dashboard needs anywidget: pip install 'tidegauge[notebook]'"
    raise SetupError(msg) from error

if TYPE_CHECKING:
    import pandas as pd

    from repository.history import AsOf
    from repository.repository import Repository

VIEWS = ("overview", "series", "compare", "distribution", "consistency", "incidents", "partitions")


class Dashboard(anywidget.AnyWidget):
    """Look at a repository: a heat map of all series, charts, comparisons, consistency, incidents, the calendar.

    It shows up where it is the last line of a cell. What is on the screen is asked for piece by piece, as
    bytes, and nothing is asked of any other host.

    Parameters
    ----------
    repository : Repository
        If it was opened with ``read_only=True``, incidents cannot be acknowledged.
    dataset : str, optional
        Which one to look at first; the first one if not given. The overview shows all.
    view : str
        ``overview``, ``series``, ``compare``, ``distribution``, ``consistency``, ``incidents`` or
        ``partitions``.
    by : str, optional
        Who says what is said of incidents; the user's name if not given.
    as_of : datetime or int, optional
        What the overview and the series show: as it was known then. All else is as of now.
    height : int
        In pixels; 0 is the height of the window.

    Attributes
    ----------
    view, dataset : str
        What is looked at now; setting them turns the page.
    options : dict
        What each view was asked for last, by its name: ``{"series": {"ids": [3, 7]}}``.

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

    view = traitlets.Unicode("overview").tag(sync=True)
    dataset = traitlets.Unicode(allow_none=True).tag(sync=True)
    options = traitlets.Dict().tag(sync=True)
    height = traitlets.Int(720).tag(sync=True)

    def __init__(
        self,
        repository: Repository,
        dataset: str | None = None,
        *,
        view: str = "overview",
        by: str | None = None,
        as_of: AsOf = None,
        height: int = 720,
    ) -> None:
        why = script.problem()
        if why is not None:
            msg = f"the dashboard has no script: {why}; {script.CURE}"
            raise SetupError(msg)
        there = repository.datasets()
        if dataset is not None:
            repository.partitions(dataset)  # or there is no such
        with repository.database.read() as connection:
            commit_as_of(connection, as_of)  # likewise
        self.repository = repository
        self.by = by or _user()
        self._overview = Overview(repository, as_of)
        self._consistency = Consistency(repository)
        self._questions: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = {
            "catalogue": self._catalogue,
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
            "partitions": lambda asked: ledger.partitions(repository, asked),
            "day": lambda asked: ledger.day(repository, asked),
            "pulse": self._pulse,
        }
        super().__init__(
            view=view, dataset=dataset or next(iter(there), None), height=height, options={}
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
        """What the view shows, in full, as a frame.

        ``overview``: a row for each series and a column for each moment, of scores. ``series``: a row for
        each point. ``compare``: as `Repository.compare`. ``distribution``: as ``repo.drift(...).frame()``.
        ``consistency``: a row for each feature, the worst first. ``incidents``: as `Repository.incidents`.
        ``partitions``: as `Repository.calendar`.

        Raises
        ------
        HistoryError
            If what a view needs was not chosen, or is misspelt: it says what.
        """
        first = next(iter(self.repository.datasets()), None)
        asked = {"dataset": self.dataset or first, **self.options.get(self.view, {})}
        frames: Mapping[str, Callable[[], pd.DataFrame]] = {
            "overview": lambda: self._overview.frame(asked.get("by", next(iter(LEVELS)))),
            "series": lambda: charts.frame(self._overview, asked),
            "compare": lambda: comparison.frame(self.repository, asked),
            "distribution": lambda: distribution.frame(self.repository, asked),
            "consistency": lambda: self._consistency.frame(asked),
            "incidents": lambda: inbox.frame(self.repository, asked),
            "partitions": lambda: ledger.frame(self.repository, asked),
        }
        return frames[self.view]()

    def _catalogue(self, asked: Mapping[str, Any]) -> Answer:  # noqa: ARG002 - all that there is
        answer = self._overview.catalogue()
        writable = not self.repository.database.read_only
        told = {"datasets": self.repository.datasets(), "writable": writable, "by": self.by}
        return Answer({**answer.told, **told}, answer.arrays)

    def _pulse(self, asked: Mapping[str, Any]) -> Answer:  # noqa: ARG002 - nothing to ask
        """Tell by a number whether something was written."""
        with self.repository.database.read() as connection:
            return Answer({"commits": commits_of(connection)})

    def _answer(self, _: Any, asked: Any, buffers: Any) -> None:
        """Answer one question of the script; an error is an answer, too: Jupyter would swallow it."""
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
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is to be seen
            return {"error": describe(problem), "kind": type(problem).__name__}, []

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the widget; where there are none, as on a page of a saved notebook, what is in the repository."""
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, "text/html": self.repository._repr_html_()}, metadata


def _user() -> str | None:
    """Return who runs this; nobody where the system has no name for them, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
