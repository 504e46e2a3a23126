"""What rules files are about: tables, folders, and files that are parsed by a schema."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.description import canonical_json, key_of
from analyzers.partitions import Partition
from analyzers.rules.result import CheckResult
from analyzers.rules.verdicts import read_verdict
from analyzers.sources import Listed, Source
from tidegauge.analysis import Run, open_source
from tidegauge.rulesfile import RulesFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from analyzers.rules.parsing import ParserValidation
    from repository.repository import Repository


@dataclass(frozen=True)
class ParsedSource:
    """A file that is parsed by a schema: one partition, known by its files and by how they are parsed.

    Attributes
    ----------
    parser : ParserValidation
    spark : SparkSession
    """

    parser: ParserValidation
    spark: SparkSession

    @property
    def name(self) -> str:
        """The file or folder."""
        return self.parser.path

    @property
    def keys(self) -> tuple[str, ...]:
        """No columns."""
        return ()

    @property
    def fingerprint(self) -> str:
        """Text that is equal as long as files and parser are."""
        how = key_of(canonical_json(self.parser.identity()))
        return f"{self.parser.fingerprint(self.spark)}/{how}"

    def list_partitions(self) -> list[Listed]:
        """Return the one partition."""
        return [Listed(Partition(), self.fingerprint)]

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:  # noqa: ARG002 - there is one
        """Return the records that could be read."""
        return self.parser.read(self.spark).data

    def partition_of(self, key: Sequence[str]) -> Partition | None:  # noqa: ARG002 - there is one
        """Return the one partition."""
        return Partition()


def source_of(file: RulesFile, spark: SparkSession) -> Source:
    """Return the source of what a rules file is about."""
    parser = file.parser(spark)
    if parser is not None:
        return ParsedSource(parser, spark)
    return open_source(file.table, file.suite, spark, file.format, file.options)


def parser_verdict(source: ParsedSource, repository: Repository, run: Run) -> CheckResult:
    """Return the verdict on how the file can be read, the kept one if there is one."""
    parser = source.parser
    case = {
        "name": parser.name,
        "specification": key_of(canonical_json(parser.identity())),
        "fingerprint": source.fingerprint,
    }
    kept = repository.verdict(run.dataset, as_of=None, **case)
    known = None if kept is None else read_verdict(kept, f"{parser.name} of {run.dataset}")
    if known is not None:
        return known
    found = parser.validate()
    repository.keep_verdict(
        run.dataset, **case, passed=found.passed, result=found.to_json(), run=run.id
    )
    return found
