"""The repository: one object through which everything remembered is written, read and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from repository import history
from repository import schema as s
from repository.compared import Compared
from repository.detected import Detected
from repository.frames import frame_of
from repository.history import AsOf
from repository.judged import Judged
from repository.measured import Measured
from repository.moved import Moved
from repository.seen import Seen

if TYPE_CHECKING:
    import pandas as pd


class Repository(Measured, Moved, Compared, Detected, Judged, Seen):
    """The memory of what was measured, in a SQL database. Needs no Spark.

    Parameters
    ----------
    url : str, optional
        ``sqlite:///file.db``, made if it is not there; ``sqlite://``, in memory; or
        ``postgresql+psycopg://user@host/database``. If not given: the environment's ``TIDEGAUGE_DB``,
        else ``db`` in ``tidegauge.toml``, here or in the user's configuration, else
        ``sqlite:///tidegauge.db``.
    artifacts : str or Path, optional
        The folder for states too large for the database. For a SQLite file it is ``file.db.artifacts``
        beside it; for PostgreSQL it must be given.

    read_only : bool
        Whether nothing may be written: for dashboards. The database itself refuses it.

    Raises
    ------
    NotOurDatabaseError, DatabaseVersionError, DatabaseAccessError

    Examples
    --------
    >>> with Repository("sqlite://") as repo:
    ...     repo.datasets()
    []
    """

    def datasets(self) -> list[str]:
        """Return the names of all datasets."""
        with self.database.read() as connection:
            query = sa.select(s.dataset.c.name).order_by(s.dataset.c.name)
            return list(connection.execute(query).scalars())

    def partitions(
        self, dataset: str, *, versions: str = "current", as_of: AsOf = None
    ) -> pd.DataFrame:
        """Return the ledger: what is known of each partition.

        Parameters
        ----------
        dataset : str
        versions : str
            ``current``, or ``all`` for every content that a partition ever had.
        as_of : datetime or int, optional
            As for `metrics`.

        Returns
        -------
        pandas.DataFrame
            With the columns partition, time, segment, version, rows, fingerprint, first_seen_at,
            arrived_at, measured_at, gone_at, run_id.
        """
        p, v = s.partition.c, s.partition_version.c
        columns = (
            p.name.label("partition"),
            p.time,
            p.segment,
            v.version,
            v.rows,
            v.fingerprint,
            p.first_seen_at,
            v.arrived_at,
            v.measured_at,
            s.commit.c.committed_at.label("gone_at"),
            v.run_id,
        )
        with self.database.read() as connection:
            of = history.dataset_id(connection, dataset)
            commit = history.commit_as_of(connection, as_of)
            holds = s.holds(s.partition_version, commit)
            if versions == "all":
                holds = sa.true() if commit is None else v.commit_id <= commit
            query = (
                sa.select(*columns)
                .join_from(s.partition, s.partition_version)
                .outerjoin(
                    s.absence,
                    (s.absence.c.partition_id == p.id) & s.holds(s.absence, commit),
                )
                .outerjoin(s.commit, s.commit.c.id == s.absence.c.commit_id)
                .where(p.dataset_id == of, holds)
                .order_by(p.time.is_(None), p.time, p.name, v.version)
            )
            rows = [row._asdict() for row in connection.execute(query)]
        return frame_of(rows, [c.key for c in columns])

    def runs(self, dataset: str | None = None) -> pd.DataFrame:
        """Return all runs, newest first.

        Columns: run_id, dataset, status, selection, measured, skipped, failed, gone, started_at,
        finished_at, error, tags.
        """
        r = s.run.c
        columns = (
            r.id.label("run_id"),
            s.dataset.c.name.label("dataset"),
            r.status,
            r.selection,
            r.measured,
            r.skipped,
            r.failed,
            r.gone,
            r.started_at,
            r.finished_at,
            r.error,
        )
        with self.database.read() as connection:
            query = sa.select(*columns).join_from(s.run, s.dataset).order_by(r.id.desc())
            if dataset is not None:
                query = query.where(r.dataset_id == history.dataset_id(connection, dataset))
            rows = [row._asdict() for row in connection.execute(query)]
            tags: dict[int, dict[str, str]] = {}
            for run, key, value in connection.execute(sa.select(s.run_tag)):
                tags.setdefault(run, {})[key] = value
        for row in rows:
            row["tags"] = tags.get(row["run_id"], {})
        return frame_of(rows, [*(c.key for c in columns), "tags"])
