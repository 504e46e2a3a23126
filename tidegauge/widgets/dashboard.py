"""The dashboard widget: the kernel side, which answers its script."""

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
from tidegauge.widgets.backend import VIEW_NAMES, Backend, current_user

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    msg = "The dashboard needs anywidget. Run pip install 'tidegauge[notebook]'."
    raise SetupError(msg) from error

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf


_SAVED = """<div class="tidegauge-saved"><style>
.jp-OutputArea-child:has(.tidegauge) + .jp-OutputArea-child:has(.tidegauge-saved),
body:not(:has(.jp-OutputArea)):has(.tidegauge) .tidegauge-saved {{ display: none; }}
.jp-OutputArea-child:not(:has(.tidegauge)):has(+ .jp-OutputArea-child .tidegauge-saved) {{ display: none; }}
.tidegauge-saved {{ max-height: 0; overflow: hidden; animation: tidegauge-saved 0s 2s forwards; }}
@keyframes tidegauge-saved {{ to {{ max-height: none; }} }}
@media print {{ .tidegauge-saved {{ max-height: none; }} }}
</style><p>The dashboard needs Python: run this cell again.</p>{html}</div>"""
"""The saved list of tables. It appears if no widget did within two seconds, and then hides the error of JupyterLab."""


class Dashboard(anywidget.AnyWidget):
    """Interactive dashboard: tables, heat map, charts, comparisons, incidents, calendar.

    It is displayed as the last expression of a cell. It requests the displayed data on demand, and
    contacts no other host.

    Parameters
    ----------
    repository : Repository or str
        A repository, or its URL. If it was opened with ``read_only=True``, incidents cannot be labeled.
    dataset : str, optional
        The dataset to show first; the first one if not given. Home, overview and incidents show all
        datasets.
    view : str, optional
        ``home``, ``overview``, ``series``, ``compare``, ``distribution``, ``consistency``,
        ``incidents`` or ``partitions``. If not given, ``home`` for several tables and ``overview``
        for one.
    by : str, optional
        Author of labels; the user's name if not given. If it is empty, or if the user is root, the
        page asks for a name.
    as_of : str, date, datetime or int, optional
        Show the overview and the series as known at that time, or after the run with that id. All
        other views are current.
    height : int
        Height in pixels; 0 is the height of the window.
    samples : bool
        If true, show samples of failing records, which are data of the tables, in incidents.

    Attributes
    ----------
    view, dataset : str
        The current view and dataset; setting them switches the page.
    options : dict
        The last request of each view, by name: ``{"series": {"ids": [3, 7]}}``,
        ``{"incidents": {"id": 337}}``. With ``view`` and ``dataset``, it is the state of the page;
        assigning it restores the page.
    summary : dict
        The table of datasets when the widget was displayed. The page shows it if no kernel answers.

    Raises
    ------
    SetupError
        If the dashboard's script was not built, with the reason.
    UnknownNameError
        If the view is unknown.
    UnknownDatasetError
        If the dataset is unknown.

    Examples
    --------
    >>> import tidegauge as tg
    >>> with tg.Repository("sqlite://") as repo:
    ...     repo.record("orders", "revenue", 1250.5, partition="ds=2013-02-08")
    ...     tg.Dashboard(repo).data.shape
    1
    (1, 1)
    """

    _esm = script.source(script.SCRIPT_FILE)
    _css = script.source(script.STYLE_FILE)

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
        reason = script.problem()
        if reason is not None:
            msg = f"The dashboard cannot start: {reason}; {script.BUILD_HINT}"
            raise SetupError(msg)
        repository = as_repository(repository)
        datasets = repository.datasets()
        if dataset is not None:
            repository.partitions(dataset)  # raises an error if unknown
        with repository.database.read() as connection:
            commit_as_of(connection, as_of)  # raises an error if invalid
        self.repository = repository
        self.by = current_user() if by is None else by or None
        self.backend = Backend(repository, as_of, samples=samples)
        super().__init__(
            view=view or self.backend.first_view(),
            dataset=dataset or next(iter(datasets), None),
            height=height,
            options={},
        )
        self.on_msg(self._answer)

    @traitlets.validate("view")
    def _check_view(self, proposal: Mapping[str, Any]) -> str:
        """Return a proposed view; refuse unknown names."""
        view = str(proposal["value"])
        if view not in VIEW_NAMES:
            raise UnknownNameError("view", view, VIEW_NAMES)
        return view

    @property
    def data(self) -> pd.DataFrame:
        """The data of the current view as a frame, filtered and sorted as on the page.

        - ``home``: the health of tables.
        - ``overview``: the scores of `Repository.scores`, a row for each series and a column for each time.
        - ``series``: a row for each point of the window, with the values of `Repository.metrics`.
        - ``compare``: as `Repository.compare`.
        - ``distribution``: as ``repo.drift(...).frame()``.
        - ``consistency``: a row for each feature, the worst first.
        - ``incidents``: as `Repository.incidents`, with assignee, end of the snooze and times.
        - ``partitions``: as `Repository.calendar`, for one segment.

        Raises
        ------
        HistoryError
            If a required option of the view is missing or misspelled; the message names it.
        """
        options = self.options.get(self.view, {})
        return self.backend.frame(self.view, options, self.dataset)

    def _answer(self, _: Any, message: Any, buffers: Any) -> None:
        """Answer a request of the script; errors are also sent, because Jupyter would hide them."""
        if isinstance(message, Mapping) and "id" in message:
            self.send(*self.backend.answer(message, self.by))

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the widget, with a table of the datasets in case no kernel answers.

        A notebook saved with the state of its widgets shows `summary`; a front end without widgets
        shows the HTML.
        """
        with self.repository.database.read() as connection:
            rows = overview_rows(connection)
        title = f"Tables on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        self.summary = dict(answers.text_table(title, DATASET_COLUMNS, map(dataset_cells, rows)))
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        html = render_datasets(self.repository.database.short_name, rows)
        return {**data, "text/html": html}, metadata

    def _ipython_display_(self) -> None:
        """Show the widget, and as an output of its own the HTML, which is hidden beside a working widget.

        JupyterLab saves no state of widgets by default. It then shows an error in place of the widget,
        whatever else the same output contains.
        """
        from IPython.display import publish_display_data

        data, metadata = self._repr_mimebundle_()
        html = data.pop("text/html")
        publish_display_data(data, metadata)  # type: ignore[no-untyped-call]
        saved = {"text/html": _SAVED.format(html=html), "text/plain": ""}
        publish_display_data(saved)  # type: ignore[no-untyped-call]
