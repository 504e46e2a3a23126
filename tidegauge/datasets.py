"""Datasets: functions that return a frame, whose data is judged before anybody is given it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from analyzers.description import canonical_json, key_of
from analyzers.errors import RuleError
from analyzers.rules.dqm import DQM
from analyzers.rules.fingerprints import frame_fingerprint
from analyzers.rules.masks import mask
from analyzers.rules.publish import Publication
from analyzers.rules.sources import source_of
from analyzers.rules.targets import Target, beside, target_of
from analyzers.rules.validation import ValidationSet, ValidationTask
from analyzers.rules.verdicts import Case, RepositoryVerdicts, VerdictFiles, Verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from repository.repository import Repository

Made = Callable[..., "DataFrame"]


def dataset(
    dqm: DQM | None = None,
    *,
    table: str | None = None,
    path: str | None = None,
    repository: Repository | None = None,
    name: str | None = None,
    parser: ValidationTask | Callable[..., ValidationTask] | None = None,
    partition_by: Sequence[str] | None = None,
    quarantine: str | None = None,
    ephemeral: bool = False,
    folder: str | None = None,
) -> Callable[[Made], Dataset]:
    """Make a dataset of a function that returns a frame.

    Called as the function is, a dataset gives the data that its rules leave, or raises. A persisted one is
    staged, judged, and published to its table or folder, which is then read; one that fails leaves the table
    as it was. When files, rules, policies and the function are what they were, and the table holds what was
    published, nothing is computed again: what passed is read, and a failure that was kept is raised again.

    What the function reads must be files for that (see `frame_fingerprint`); without, the data is computed
    and judged at each call. The source of the function counts, with helpers of its own module.

    Parameters
    ----------
    dqm : DQM, optional
        Rules, fixes and policies; none if not given.
    table, path : str, optional
        Where the data is published: a table of the catalog, or a folder. One of them, unless it is ephemeral.
    repository : Repository, optional
        Where verdicts are kept, and what is counted is recorded, under the dataset's name.
    name : str, optional
        The function's name if not given.
    parser : ValidationTask or callable, optional
        The parser of the file that the function reads, or a function that returns it, called with the same
        arguments. Its verdict and that of the rules are one.
    partition_by : sequence of str, optional
        How a new table is partitioned; counts are by these, too.
    quarantine : str, optional
        A table or folder for the records that are rejected.
    ephemeral : bool
        Whether nothing is persisted: data is judged by a pass of its own, once for the same files, and the
        frame that is returned is computed where it is used.
    folder : str, optional
        Where verdicts are kept without a repository, as ``<name>.<hash>.check``. Beside the folder or the
        table if not given; an ephemeral dataset keeps none then.

    Raises
    ------
    RuleError
        If it is not said where data or verdicts go, or said twice.

    Examples
    --------
    >>> import tidegauge as tg
    >>> good = tg.DQM().add(tg.NotNullRule("carrier"), tg.FailPercent(0.01))
    >>> @tg.dataset(good, path="lake/departures", partition_by=["ds"])
    ... def departures(spark):
    ...     return spark.table("flights").where("NOT cancelled")
    >>> departures
    Dataset('departures')
    >>> departures(spark).count()  # doctest: +SKIP
    """
    if (table is not None) + (path is not None) + ephemeral != 1:
        msg = "a dataset goes to one place: give table= or path=, or ephemeral=True"
        raise RuleError(msg)
    if ephemeral and (partition_by is not None or quarantine is not None):
        msg = "an ephemeral dataset writes nothing: leave partition_by= and quarantine= out"
        raise RuleError(msg)
    if repository is not None and folder is not None:
        msg = "verdicts are kept in one place: give repository= or folder=, not both"
        raise RuleError(msg)
    if path is not None and "/" not in path:
        path = f"./{path}"

    def made(function: Made) -> Dataset:
        return Dataset(
            function,
            DQM() if dqm is None else dqm,
            function.__name__ if name is None else name,
            path if table is None else table,
            repository,
            parser,
            partition_by,
            quarantine,
            folder,
        )

    return made


@dataclass(eq=False, repr=False)
class Dataset:
    """A function whose frame is judged before it is returned; `dataset` tells of each part.

    Attributes
    ----------
    name : str
    dqm : DQM
    """

    function: Made
    dqm: DQM
    name: str
    _table: str | None
    _repository: Repository | None
    _parser: ValidationTask | Callable[..., ValidationTask] | None
    _partition_by: Sequence[str] | None
    _quarantine: str | None
    _folder: str | None

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)

    def __call__(self, *args: Any, **options: Any) -> DataFrame:
        """Return the data that was judged.

        Raises
        ------
        DQMError
            If it failed, now or when the verdict was kept.
        """
        made = self.function(*args, **options)
        parser = self._parser
        if parser is not None and not isinstance(parser, ValidationTask):
            parser = parser(*args, **options)
        tests = self._tests(made, parser)
        if self._table is None:
            return self._ephemeral(made, tests)
        return self._persisted(made, tests, target_of(made.sparkSession, self._table))

    def _tests(self, made: DataFrame, parser: ValidationTask | None) -> ValidationSet:
        tasks = [self.dqm] if parser is None else [self.dqm, parser]
        verdicts = self._verdicts(made.sparkSession)
        return ValidationSet(
            tasks, name=self.name, verdicts=verdicts, fingerprint=self._fingerprint(made, parser)
        )

    def _fingerprint(self, made: DataFrame, parser: ValidationTask | None) -> str | None:
        """Return text that is equal for the same function of the same files."""
        read = getattr(parser, "fingerprint", None)
        print_ = frame_fingerprint(made, options_known=read is not None)
        of_parser = read() if callable(read) else ""
        if print_ is None or of_parser is None:
            return None
        of = [print_, of_parser, source_of(self.function)]
        return "dataset/1:" + key_of(canonical_json(of))

    def _verdicts(self, spark: SparkSession) -> Verdicts | None:
        if self._repository is not None:
            return RepositoryVerdicts(self._repository, self.name)
        folder = self._folder
        if folder is None and self._table is not None:
            folder = beside(spark, self._table)
        return None if folder is None else VerdictFiles(folder)

    def _ephemeral(self, made: DataFrame, tests: ValidationSet) -> DataFrame:
        kept = tests.kept()
        if kept is not None:
            kept.terminate_at_error()
        elif self._repository is None:
            tests.validate(made)
        else:
            applied = self.dqm.apply(made, repository=self._repository, dataset=self.name)
            others = ValidationSet(tests.tasks[1:]).judge(made)
            check = applied.check + others
            tests.keep(check)
            check.terminate_at_error()
        return mask(made, self.dqm.tasks).kept

    def _persisted(self, made: DataFrame, tests: ValidationSet, target: Target) -> DataFrame:
        kept = tests.kept()
        if kept is not None:
            kept.terminate_at_error()
        if kept is not None and target.exists() and self._holds(tests, target):
            return target.read(made.schema)
        published = Publication(
            target.name,
            tests,
            partition_by=self._partition_by,
            quarantine=self._quarantine,
            repository=self._repository,
            dataset=None if self._repository is None else self.name,
        ).run(made)
        holding = self._holding(tests, target)
        verdicts = self._verdicts(made.sparkSession)
        if holding is not None and verdicts is not None:
            verdicts.keep(holding, published.check)
        return published.data

    def _holds(self, tests: ValidationSet, target: Target) -> bool:
        """Whether the target's files are those that were published of this data."""
        holding = self._holding(tests, target)
        verdicts = self._verdicts(target.spark)
        found = None if holding is None or verdicts is None else verdicts.find(holding)
        return found is not None and found.passed

    def _holding(self, tests: ValidationSet, target: Target) -> Case | None:
        """Return the case of the data as it lies in the target's files now."""
        case, files = tests.case, target.fingerprint()
        if case is None or files is None:
            return None
        return replace(case, fingerprint=f"{case.fingerprint}+{files}")

    def __repr__(self) -> str:
        """Return its name."""
        return f"Dataset({self.name!r})"
