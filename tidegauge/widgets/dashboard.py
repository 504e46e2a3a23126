"""The dashboard widget: the kernel side that responds to its script."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import SetupError, UnknownNameError
from tidegauge.display.cards import DATASET_COLUMNS, dataset_cells, render_datasets
from tidegauge.repository.history.health import overview_rows
from tidegauge.repository.repository import as_repository
from tidegauge.repository.store.queries import commit_as_of
from tidegauge.widgets import answers, script
from tidegauge.widgets.backend import VIEWS, Backend, current_user

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
    as_of : str, date, datetime or int, optional
        Show the overview and the series as known at that time, or after the run of that id. All
        else is current.
    height : int
        In pixels; 0 is the height of the window.
    samples : bool
        Show samples of failing records, which are data of the tables, in incidents.

    Attributes
    ----------
    view, dataset : str
        The current view and dataset; setting them switches the page.
    options : dict
        The last request of each view, by its name: ``{"series": {"ids": [3, 7]}}``,
        ``{"incidents": {"id": 337}}``. Together with ``view`` and ``dataset`` it is the state of the
        page: assigning it restores the page.
    summary : dict
        The table of datasets when the widget was displayed; the page shows it where no Python answers.

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
    summary = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        repository: Repository | str,
        dataset: str | None = None,
        *,
        view: str | None = None,
        by: str | None = None,
        as_of: AsOf = None,
        height: int = 720,
        samples: bool = False,
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
        self.by = current_user() if by is None else by or None
        self.backend = Backend(repository, as_of, samples=samples)
        super().__init__(
            view=view or self.backend.first_view(),
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
        """The data of the current view as a frame, filtered and sorted as it is shown.

        ``home``: the health of tables. ``overview``: scores, a row for each series and a column for
        each time. ``series``: a row for each point of the window. ``compare``: as
        `Repository.compare`. ``distribution``: as ``repo.drift(...).frame()``. ``consistency``: a row
        for each feature, the worst first. ``incidents``: as `Repository.incidents`, with assignee,
        end of the snooze and times. ``partitions``: as `Repository.calendar`, of one segment.

        Raises
        ------
        HistoryError
            If a required option of the view is missing or misspelt; the message names it.
        """
        options = self.options.get(self.view, {})
        return self.backend.frame(self.view, options, self.dataset)

    def _answer(self, _: Any, asked: Any, buffers: Any) -> None:
        """Respond to a request of the script; errors are sent too, since Jupyter would swallow them."""
        if isinstance(asked, Mapping) and "id" in asked:
            self.send(*self.backend.answer(asked, self.by))

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the widget, with a table of the datasets for when no kernel answers.

        A notebook that is saved with the state of its widgets shows `summary`, one without them the HTML.
        """
        with self.repository.database.read() as connection:
            rows = overview_rows(connection)
        title = f"Tables on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        self.summary = dict(answers.text_table(title, DATASET_COLUMNS, map(dataset_cells, rows)))
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        html = render_datasets(self.repository.database.name, rows)
        return {**data, "text/html": html}, metadata
