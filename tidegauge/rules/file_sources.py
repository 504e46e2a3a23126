"""Data sources of rules files: tables, folders, and files parsed by a schema."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.analysis import Run, open_source
from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.sources.sources import ListedPartition, Source
from tidegauge.files.rules import RulesFile
from tidegauge.rules.outcome.result import CheckResult
from tidegauge.rules.outcome.verdicts import read_verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.repository.repository import Repository
    from tidegauge.rules.parsing.parser import ParserValidation


@dataclass(frozen=True)
class ParsedSource:
    """File parsed by a schema: a source with one partition, fingerprinted by files and parser.

    Attributes
    ----------
    parser : ParserValidation
    spark : SparkSession
    """

    parser: ParserValidation
    spark: SparkSession

    @property
    def name(self) -> str:
        """Path of the file or folder."""
        return self.parser.path

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns: none."""
        return ()

    @property
    def fingerprint(self) -> str:
        """Fingerprint of files and how they are read, whatever the policies on what cannot be."""
        told = self.parser.identity()
        how = key_of(canonical_json({**told, "parser": None, "policies": None}))
        return f"{self.parser.fingerprint(self.spark)}/{how}"

    def list_partitions(self) -> list[ListedPartition]:
        """Return the single partition."""
        return [ListedPartition(Partition(), self.fingerprint)]

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the records that could be read."""
        return self.parser.read(self.spark).data

    def partition_of(self, key: Sequence[str]) -> Partition | None:
        """Return the single partition."""
        return Partition()


def open_rules_source(file: RulesFile, spark: SparkSession) -> Source:
    """Return the source of a rules file."""
    parser = file.parser(spark)
    if parser is not None:
        return ParsedSource(parser, spark)
    return open_source(file.table, file.suite, spark, file.format, file.options)


def parser_verdict(source: ParsedSource, repository: Repository, run: Run) -> CheckResult:
    """Return the parser's verdict on the file: the stored one, or a new one, which is stored."""
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
