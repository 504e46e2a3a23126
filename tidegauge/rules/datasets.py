"""Datasets: functions returning a frame that is validated before it is handed out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.runs.verdicts import Case
from tidegauge.analyzers.sources.fingerprints import frame_fingerprint
from tidegauge.analyzers.sources.locations import parent_location
from tidegauge.analyzers.sources.targets import WriteTarget, open_target
from tidegauge.repository.repository import Repository, as_repository
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.code_identity import source_hash
from tidegauge.rules.dqm import DQM
from tidegauge.rules.masks import mask
from tidegauge.rules.outcome.validation import ValidationSet, ValidationTask
from tidegauge.rules.outcome.verdicts import RepositoryVerdicts, VerdictFiles, Verdicts
from tidegauge.rules.publish import Publication

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FrameFunction = Callable[..., "DataFrame"]


def dataset(
    dqm: DQM | None = None,
    *,
    table: str | None = None,
    path: str | None = None,
    repository: Repository | str | Path | None = None,
    name: str | None = None,
    parser: ValidationTask | Callable[..., ValidationTask] | None = None,
    partition_by: Sequence[str] | None = None,
    quarantine: str | None = None,
    ephemeral: bool = False,
    folder: str | None = None,
) -> Callable[[FrameFunction], Dataset]:
    """Decorate a function that returns a frame, so that its data is validated and published.

    A dataset has the signature of the function. Calling it returns the data that its rules leave,
    or raises. A persisted dataset is staged, judged, and published to its table or folder, which is
    then read; if it fails, the table is left as it was. While files, rules, policies and the
    function are unchanged and the table holds what was published, nothing is recomputed: passed
    data is read, and a stored failure is raised again.

    This requires that the function reads files (see `frame_fingerprint`); otherwise the data is
    computed and judged at each call. A change of the function's source, or of the helpers it uses
    in its own module, counts as a change.

    Parameters
    ----------
    dqm : DQM, optional
        Rules, fixes and policies; none if not given.
    table, path : str, optional
        Where the data is published: a catalog table, or a folder. Exactly one is required, unless
        the dataset is ephemeral.
    repository : Repository or str, optional
        Or its URL. Stores the verdicts and records the counts, under the dataset's name.
    name : str, optional
        Name of the dataset; default: the function's name.
    parser : ValidationTask or callable, optional
        The parser of the file that the function reads, or a function that returns it, called with
        the same arguments. Its verdict is combined with that of the rules.
    partition_by : sequence of str, optional
        Partition columns of a new table; counts are also grouped by them.
    quarantine : str, optional
        A table or folder for the rejected records.
    ephemeral : bool
        Persist nothing: data is judged in a separate pass, once for the same files, and the
        returned frame is computed lazily.
    folder : str, optional
        Where verdicts are stored without a repository, as ``<name>.<hash>.check``. Default: beside
        the folder or the table; an ephemeral dataset then stores none.

    Raises
    ------
    RuleError
        If the place for data is missing, or a place for data or verdicts is given twice; if an
        ephemeral dataset is given ``partition_by`` or ``quarantine``.

    Examples
    --------
    >>> import tidegauge as tg
    >>> good = tg.DQM().add(tg.NotNullRule("carrier"), tg.FailPercent(0.5))
    >>> @tg.dataset(good, path="lake/departures", partition_by=["ds"])
    ... def departures(spark):
    ...     return spark.table("flights").where("NOT cancelled")
    >>> departures
    Dataset('departures')

    One that writes nothing:

    >>> @tg.dataset(good, ephemeral=True)
    ... def carriers(spark):
    ...     return spark.sql("SELECT explode(array('AA', 'UA', NULL)) AS carrier")
    >>> carriers(tg.spark_session()).count()  # doctest: +SKIP
    2
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
    repository = as_repository(repository)

    def made(function: FrameFunction) -> Dataset:
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
    """A function whose frame is validated before it is returned; see `dataset` for each part.

    Attributes
    ----------
    name : str
    dqm : DQM

    Examples
    --------
    >>> import tidegauge as tg
    >>> good = tg.DQM("good").add(tg.NotNullRule("carrier"), tg.FailAny)
    >>> @tg.dataset(good, path="lake/departures")
    ... def departures(spark):
    ...     return spark.table("flights").where("NOT cancelled")
    >>> departures.name, departures.dqm.name
    ('departures', 'good')
    """

    function: FrameFunction
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
        """Return the validated data; arguments are passed to the function.

        Raises
        ------
        DQMError
            If the data failed, now or when the stored verdict was made.
        """
        made = self.function(*args, **options)
        parser = self._parser
        if parser is not None and not isinstance(parser, ValidationTask):
            parser = self._made_parser(parser(*args, **options))
        tests = self._tests(made, parser)
        if self._table is None:
            return self._ephemeral(made, tests)
        return self._persisted(made, tests, open_target(made.sparkSession, self._table))

    def _made_parser(self, parser: object) -> ValidationTask:
        """Return the parser that the user's function made."""
        if isinstance(parser, ValidationTask):
            return parser
        msg = (
            f"dataset {self.name!r}: parser= is a parser such as tg.ParserValidation(...), or a function"
            f" that returns one, not {parser!r}"
        )
        raise RuleError(msg)

    def _tests(self, made: DataFrame, parser: ValidationTask | None) -> ValidationSet:
        tasks = [self.dqm] if parser is None else [self.dqm, parser]
        verdicts = self._verdicts(made.sparkSession)
        return ValidationSet(
            tasks, name=self.name, verdicts=verdicts, fingerprint=self._fingerprint(made, parser)
        )

    def _fingerprint(self, made: DataFrame, parser: ValidationTask | None) -> str | None:
        """Return a fingerprint of the function and the files it reads; None if there is none."""
        read = getattr(parser, "fingerprint", None)
        print_ = frame_fingerprint(made, options_known=read is not None)
        of_parser = read() if callable(read) else ""
        if print_ is None or of_parser is None:
            return None
        of = [print_, of_parser, source_hash(self.function)]
        return "dataset/1:" + key_of(canonical_json(of))

    def _verdicts(self, spark: SparkSession) -> Verdicts | None:
        if self._repository is not None:
            return RepositoryVerdicts(self._repository, self.name)
        folder = self._folder
        if folder is None and self._table is not None:
            folder = parent_location(spark, self._table)
        return None if folder is None else VerdictFiles(folder)

    def _ephemeral(self, made: DataFrame, tests: ValidationSet) -> DataFrame:
        kept = tests.kept()
        if kept is not None:
            kept.terminate_at_error()
        elif self._repository is None:
            tests.validate(made)
        else:
            dqm = cast("DQM", tests.tasks[0])  # without policies on parsing, which are the parser's
            applied = dqm.apply(made, repository=self._repository, dataset=self.name)
            private = privacy_settings().of(self.name)
            others = [task.hiding(private) for task in tests.tasks[1:]]
            check = applied.check + ValidationSet(others).judge(made)
            tests.keep(check)
            check.terminate_at_error()
        return mask(made, self.dqm.tasks).kept

    def _persisted(self, made: DataFrame, tests: ValidationSet, target: WriteTarget) -> DataFrame:
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

    def _holds(self, tests: ValidationSet, target: WriteTarget) -> bool:
        """Return whether the target's files are those published from this data."""
        holding = self._holding(tests, target)
        verdicts = self._verdicts(target.spark)
        found = None if holding is None or verdicts is None else verdicts.find(holding)
        return found is not None and found.passed

    def _holding(self, tests: ValidationSet, target: WriteTarget) -> Case | None:
        """Return the case of the data in its published form: fingerprint of data and target files."""
        case, files = tests.case, target.fingerprint()
        if case is None or files is None:
            return None
        return replace(case, fingerprint=f"{case.fingerprint}+{files}")

    def __repr__(self) -> str:
        """Return the name."""
        return f"Dataset({self.name!r})"
