"""Evaluation of rules and fixes as native Spark expressions: bit masks and repaired columns.

Evaluation is lazy. Every expression appears once in the plan, so that Spark generates one program for all of
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.conditions import compare_exactly
from tidegauge.analyzers.core.errors import (
    MetricError,
    RuleError,
    UnresolvedExpressionError,
    describe,
)
from tidegauge.analyzers.core.schema import Schema, check_distinct_columns
from tidegauge.analyzers.core.sql import literal, parts, quote, words_in
from tidegauge.analyzers.scan.spark_errors import handled_errors
from tidegauge.analyzers.scan.user_sql import unparsed
from tidegauge.rules.record_counts import BitTest, Tasks, breaking_bits
from tidegauge.rules.tasks import (
    NONDETERMINISTIC_PROBLEM,
    DQMFix,
    DQMRule,
    DQMTask,
    Expression,
    KeyLookup,
    UniqueKey,
    check_deterministic,
    check_record_by_record,
    is_column,
    shown_text,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HIDDEN_PREFIX = "__tidegauge_"
_FILTER_BARRIER = "CAST(spark_partition_id() < 0 AS BIGINT)"
"""Always 0, but nondeterministic to Spark, which therefore does not push filters through it. A pushed filter
repeats the whole expression tree of a column, which triples with each fix that depends on another."""
_OPEN_STEPS = 2
"""Number of steps of fixes without a barrier. Filters are pushed through so few steps at little cost."""


@dataclass(frozen=True)
class Masked:
    """A frame with the bit words of rules and fixes as extra columns.

    Attributes
    ----------
    frame : DataFrame
        The columns of the data, with repaired values, and the hidden columns.
    tasks : Tasks
        The rules and fixes.
    columns : tuple of str
        Columns of the data, without the hidden ones.
    originals : mapping of str to str
        Hidden column with the original values of each repaired column; empty unless fixes and rules
        of the stage ``after`` require it.
    repaired : tuple of str
        Columns that fixes write.
    failures : mapping of str to MetricError
        Tasks that do not resolve on this frame; they are skipped.
    """

    frame: DataFrame
    tasks: Tasks
    columns: tuple[str, ...]
    originals: Mapping[str, str]
    repaired: tuple[str, ...]
    failures: Mapping[str, MetricError]

    @property
    def words(self) -> list[str]:
        """The names of the columns that hold the bit words."""
        return word_names(self.tasks)

    @property
    def values(self) -> list[str]:
        """SQL for the repaired values, cast to string if their type cannot be hashed."""
        kinds = {f.name: f.dataType.simpleString() for f in self.frame.schema.fields}
        unhashed = {name for name in self.repaired if re.search("map<|variant", kinds[name])}
        return [
            f"CAST({quote(name)} AS STRING)" if name in unhashed else quote(name)
            for name in self.repaired
        ]

    @property
    def kept_records(self) -> DataFrame:
        """The records that no rule rejects, repaired, with the columns of the data."""
        return self.frame.where(
            conjunction_sql(self.tasks.kept_tests(self.tasks.rules), self.words)
        ).selectExpr(*map(quote, self.columns))

    def rejected(self, *extra: str) -> DataFrame:
        """Return the rejected records with their original values and additional expressions."""
        is_kept = conjunction_sql(self.tasks.kept_tests(self.tasks.rules), self.words)
        columns = [
            f"{self.originals[c]} AS {quote(c)}" if c in self.originals else quote(c)
            for c in self.columns
        ]
        return self.frame.where(f"NOT ({is_kept})").selectExpr(*columns, *extra)

    def broken(self) -> str:
        """Return SQL for the names of the rules that a record breaks, as an array of strings."""
        return _compact(
            f"CASE WHEN {self.breaks_sql(rule)} THEN {literal(rule.name)} END"
            for rule in self.tasks.ordered
        )

    def reasons(self, run: int | None) -> str:
        """Return SQL for the reasons why a record breaks rules, as an array of structs; see `Applied.flagged`."""
        cases = (
            f"CASE WHEN {self.breaks_sql(rule)} THEN named_struct('rule', {literal(rule.name)},"
            f" 'message', {literal(rule.reason)}, 'severity', {literal(rule.severity)},"
            f" 'tags', CAST(array({', '.join(map(literal, rule.tags))}) AS ARRAY<STRING>),"
            f" 'run', CAST({'NULL' if run is None else run} AS BIGINT), 'time', current_timestamp()) END"
            for rule in self.tasks.ordered
        )
        listed = ", ".join(cases)
        return f"array_compact(array({listed}))" if listed else f"CAST(array() AS {REASONS_TYPE})"

    def charged_rules_sql(self) -> str:
        """Return SQL for the names of the rules that a record is charged to, as an array of strings.

        These are the first rule that rejects it, and all rules that warn about it.
        """
        tasks = self.tasks.ordered
        first = " ".join(
            f"WHEN {self.breaks_sql(rule)} THEN {literal(rule.name)}"
            for rule in tasks
            if rule.rejects
        )
        warned = [
            f"CASE WHEN {self.breaks_sql(rule)} THEN {literal(rule.name)} END"
            for rule in tasks
            if not rule.rejects
        ]
        return _compact([*([f"CASE {first} END"] if first else []), *warned])

    def breaks_sql(self, rule: DQMRule) -> str:
        """Return SQL that is true if a record breaks a rule."""
        position = self.tasks.positions[rule.name]
        return BitTest(position.word, position.bits(breaking_bits(rule)), any=True).sql(self.words)


REASONS_TYPE = (
    "ARRAY<STRUCT<rule: STRING, message: STRING, severity: STRING, tags: ARRAY<STRING>,"
    " run: BIGINT, time: TIMESTAMP>>"
)
"""Type of the column with the reasons why a record breaks rules."""


def _compact(names: Iterable[str]) -> str:
    """Return SQL for an array of the non-null strings."""
    listed = ", ".join(names)
    return f"array_compact(array({listed}))" if listed else "CAST(array() AS ARRAY<STRING>)"


def word_names(tasks: Tasks) -> list[str]:
    """Return the names of the columns that hold the bit words."""
    return [f"{HIDDEN_PREFIX}w{i}" for i in range(tasks.words)]


def conjunction_sql(tests: Iterable[BitTest], names: Sequence[str]) -> str:
    """Return SQL for a conjunction of tests on bit words."""
    return " AND ".join(test.sql(names) for test in tests) or "true"


@handled_errors()
def mask(
    data: DataFrame,
    tasks: Tasks,
    skip: Iterable[str] = (),
    *,
    partition_by: Sequence[str] | None = None,
) -> Masked:
    """Apply rules and fixes to a frame lazily, without a Spark action.

    Tasks that Spark cannot resolve on this frame, and tasks whose result depends on other records, are
    skipped and reported in the result's ``failures``.

    Parameters
    ----------
    data : DataFrame
        The records.
    tasks : Tasks
        The rules and fixes.
    skip : iterable of str
        Names of rules and fixes to skip.
    partition_by : sequence of str, optional
        The partition columns, if only some partitions are read at a time. Tasks that read other
        partitions are then refused.
    """
    check_distinct_columns(data)
    reserved = [
        name
        for name in data.columns
        if re.fullmatch(rf"(?i){HIDDEN_PREFIX}[cefopvw]\d+|{HIDDEN_PREFIX}n", name)
    ]
    if reserved:
        msg = f"the data has a column {reserved[0]!r}, a name reserved for counting; rename the column"
        raise RuleError(msg)
    builder = _Builder(data, tasks, dict.fromkeys(skip), partition_by)
    builder.add_rules(tasks.before, guarded=False)
    if tasks.after and tasks.fixes:
        builder.keep_originals()
    builder.repair()
    builder.add_rules(tasks.after, guarded=True)
    failures = {name: error for name, error in builder.skipped.items() if error is not None}
    columns = tuple(data.columns)
    repaired = tuple(builder.repaired)
    return Masked(builder.frame, tasks, columns, builder.originals, repaired, failures)


TypedExpression = tuple[Expression, str | None]
"""An expression, and the type to cast it to; None for a condition."""


@dataclass(frozen=True)
class TaskSql:
    """Generated SQL of a task: expressions, Columns and lookups by hidden name, condition flags.

    ``own`` is the SQL that the user wrote, without the generated SQL around it.
    """

    texts: list[str]
    hidden: dict[str, Column]
    lookups: dict[str, KeyLookup]
    conditions: list[bool]
    user_sql: list[str]


def _arm_code_sql(arms: Iterable[tuple[str, str]], is_kept: str) -> str:
    """Return SQL for the bit of the first arm of a fix whose condition holds; 0 for other records."""
    whens = " ".join(f"WHEN {when} THEN {1 << i}L" for i, (when, _) in enumerate(arms))
    return f"CASE WHEN {is_kept} THEN CASE {whens} ELSE 0L END ELSE 0L END"


def _repaired_sql(arms: Iterable[tuple[str, str]], code: str, column: str) -> str:
    """Return SQL for a column's value after a fix, given the column with the code of the arm."""
    whens = " ".join(f"WHEN {code} = {1 << i}L THEN {value}" for i, (_, value) in enumerate(arms))
    return f"CASE {whens} ELSE {quote(column)} END"


@dataclass
class _Builder:
    """Builder of the masked frame, in steps; each step sees the columns of the previous ones."""

    frame: DataFrame
    tasks: Tasks
    skipped: dict[str, MetricError | None]
    partition_by: Sequence[str] | None = None
    originals: dict[str, str] = field(default_factory=dict)
    repaired: dict[str, None] = field(default_factory=dict)
    hidden: int = 0

    def add_rules(self, rules: Sequence[DQMRule], *, guarded: bool) -> None:
        """Add the bit words of rules; if guarded, evaluate them only for records that no rule has rejected."""
        sql_by_rule = self._resolve(rules, lambda rule: [(rule.expression, None)])
        terms: dict[int, list[str]] = {}
        is_kept = conjunction_sql(self.tasks.kept_tests(self.tasks.before), word_names(self.tasks))
        for rule in rules:
            position = self.tasks.positions[rule.name]
            terms.setdefault(position.word, [])
            if rule.name in sql_by_rule:
                (condition,) = sql_by_rule[rule.name]
                # Evaluates the condition once: 0 if true, 1 if false, 2 if null.
                code = f"coalesce(CAST(NOT ({condition}) AS BIGINT), 2L)"
                code = f"CASE WHEN {is_kept} THEN {code} ELSE 0L END" if guarded else code
                terms[position.word].append(f"shiftleft({code}, {position.shift})")
        if guarded:
            for word_terms in terms.values():
                word_terms.append(_FILTER_BARRIER)
        self._add_words(terms)

    def keep_originals(self) -> None:
        """Copy the columns that fixes will replace to hidden columns."""
        hidden_by_column = {
            self._column_of(fix): f"{HIDDEN_PREFIX}o{i}" for i, fix in enumerate(self.tasks.fixes)
        }
        self.originals = {c: hidden for c, hidden in hidden_by_column.items() if c is not None}
        self._select(*(f"{quote(c)} AS {hidden}" for c, hidden in self.originals.items()))

    def repair(self) -> None:
        """Apply the fixes in order, grouping independent fixes into one step."""
        is_kept = conjunction_sql(self.tasks.kept_tests(self.tasks.before), word_names(self.tasks))
        remaining = [fix for fix in self.tasks.fixes if fix.name not in self.skipped]
        steps = 0
        while remaining:
            step = _independent(remaining)
            remaining = remaining[len(step) :]
            steps += 1
            barrier = f" | {_FILTER_BARRIER}" if steps > _OPEN_STEPS else ""
            self._repair_columns(step, is_kept, barrier)
        terms: dict[int, list[str]] = {}
        for i, fix in enumerate(self.tasks.fixes):
            position = self.tasks.positions[fix.name]
            terms.setdefault(position.word, [])
            if f"{HIDDEN_PREFIX}f{i}" in self.frame.columns:
                terms[position.word].append(f"shiftleft({HIDDEN_PREFIX}f{i}, {position.shift})")
        self._add_words(terms)

    def _repair_columns(self, step: Sequence[DQMFix], is_kept: str, barrier: str) -> None:
        """Apply independent fixes: add the code of the arm that repairs a record, then replace the values."""
        types = {f.name: f.dataType.simpleString() for f in self.frame.schema.fields}
        targets = {fix.name: types.get(str(self._column_of(fix)), "STRING") for fix in step}

        def typed_expressions(fix: DQMFix) -> list[TypedExpression]:
            kinds = (None, targets[fix.name])
            return list(zip(_fix_expressions(fix), kinds * len(fix.arms), strict=True))

        sql_by_fix = self._resolve(step, typed_expressions)
        codes, values = [], {}
        for fix in step:
            column = self._column_of(fix)
            if fix.name not in sql_by_fix or column is None:
                continue
            sql = sql_by_fix[fix.name]
            arms = list(zip(sql[::2], sql[1::2], strict=True))
            code = f"{HIDDEN_PREFIX}f{self.tasks.fixes.index(fix)}"
            codes.append(f"{_arm_code_sql(arms, is_kept)}{barrier} AS {code}")
            values[column] = _repaired_sql(arms, code, column)
        if codes:
            self._select(*codes)
            self._replace(values)
            self.repaired.update(dict.fromkeys(values))

    def _column_of(self, fix: DQMFix) -> str | None:
        """Return a fix's column as the frame spells it; if it is missing, skip the fix and return None."""
        try:
            column = Schema.from_frame(self.frame).field(fix.column)
        except MetricError as missing:
            self.skipped.setdefault(fix.name, _task_error(fix, missing))
            return None
        name = next((n for n in self.frame.columns if quote(n) == column.sql), None)
        if name is None:
            error = UnresolvedExpressionError(
                f"fix {fix.name!r}: {fix.column!r} is a field of a column; repair the whole column"
            )
            self.skipped.setdefault(fix.name, error)
        return name

    def _add_words(self, terms: Mapping[int, Sequence[str]]) -> None:
        names = word_names(self.tasks)
        self._select(
            *(
                f"{' | '.join(word_terms) or '0L'} AS {names[word]}"
                for word, word_terms in terms.items()
            )
        )

    def _select(self, *extra: str) -> None:
        if extra:
            self.frame = self.frame.selectExpr("*", *extra)

    def _replace(self, values: Mapping[str, str]) -> None:
        self.frame = self.frame.selectExpr(
            *(
                f"{values[name]} AS {quote(name)}" if name in values else quote(name)
                for name in self.frame.columns
            )
        )

    def _resolve(
        self,
        tasks: Sequence[DQMTask],
        expressions: Callable[[Any], list[TypedExpression]],
    ) -> dict[str, list[str]]:
        """Return the SQL of the tasks that resolve, and add their hidden columns to the frame."""
        sql_by_task: dict[str, TaskSql] = {}
        for task in tasks:
            if task.name in self.skipped:
                continue
            try:
                sql_by_task[task.name] = self._generate_sql(expressions(task))
            except Exception as error:  # noqa: BLE001 - a user's function can raise anything
                self.skipped[task.name] = _task_error(task, error)
        by_name = {task.name: task for task in tasks}
        if self._problem(sql_by_task.values()) is not None:
            for name, task_sql in list(sql_by_task.items()):
                problem = self._problem([task_sql])
                if problem is not None:
                    self.skipped[name] = _task_error(by_name[name], problem)
                    del sql_by_task[name]
        if self._refused_in_aggregate(sql_by_task.values()):
            for name, task_sql in list(sql_by_task.items()):
                if _is_random(self._refused_in_aggregate([task_sql])):
                    self.skipped[name] = _task_error(
                        by_name[name], UnresolvedExpressionError(NONDETERMINISTIC_PROBLEM)
                    )
                    del sql_by_task[name]
        self.frame = _with_hidden(self.frame, sql_by_task.values())
        schema = Schema.from_frame(self.frame)
        return {
            name: [
                compare_exactly(sql, schema) if condition else sql
                for sql, condition in zip(task_sql.texts, task_sql.conditions, strict=True)
            ]
            for name, task_sql in sql_by_task.items()
        }

    def _generate_sql(self, expressions: Iterable[TypedExpression]) -> TaskSql:
        """Generate the SQL of expressions, with hidden columns in place of Columns."""
        statements, conditions, user_sql = [], [], []
        hidden: dict[str, Column] = {}
        lookups: dict[str, KeyLookup] = {}
        for expression, kind in expressions:
            sql = visible_sql = ""
            for piece in expression.pieces:
                value = piece
                if isinstance(piece, KeyLookup):
                    alias = self._alias()
                    lookups[alias] = piece
                    has_key = " AND ".join(f"{column} IS NOT NULL" for column in piece.columns)
                    sql += f"CASE WHEN {has_key} THEN {alias} IS NOT NULL END"
                    continue
                if isinstance(piece, UniqueKey):
                    sql += piece.within(list(map(quote, self.partition_by or ())))
                    continue
                if callable(piece) and not isinstance(piece, str) and not is_column(piece):
                    value = piece(self.frame)
                    value = f"(\n{value}\n)" if isinstance(value, str) else value
                visible_sql += shown_text(value)
                if is_column(value):
                    alias = self._alias()
                    hidden[alias] = value
                    value = alias
                elif str(value).startswith("(\n"):
                    user_sql.append(str(value).removeprefix("(\n").removesuffix("\n)"))
                sql += str(value)
            check_deterministic(visible_sql)
            if self.partition_by is not None:
                check_record_by_record(visible_sql, self.partition_by)
            statements.append(sql if kind is None else f"CAST({sql} AS {kind})")
            conditions.append(kind is None)
        return TaskSql(statements, hidden, lookups, conditions, user_sql)

    def _alias(self) -> str:
        self.hidden += 1
        return f"{HIDDEN_PREFIX}e{self.hidden - 1}"

    def _refused_in_aggregate(self, task_sqls: Iterable[TaskSql]) -> str:
        """Return Spark's error if it refuses an expression within an aggregate function, or an empty string.

        Spark refuses windows and nondeterministic expressions there. For a user's function there is no other
        way to detect a nondeterministic expression.
        """
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        task_sqls = list(task_sqls)
        columns = [column for task_sql in task_sqls for column in task_sql.hidden.values()]
        columns += [F.expr(f"({sql})") for task_sql in task_sqls for sql in task_sql.texts]
        if not columns:
            return ""
        try:
            _ = (
                _with_hidden(self.frame, task_sqls)
                .agg(*(F.max(c.isNotNull()) for c in columns))
                .schema
            )
        except PySparkException as error:
            return str(error)
        return ""

    def _problem(self, task_sqls: Iterable[TaskSql]) -> Exception | None:
        """Return the error of expressions that do not resolve or are not boolean, or None."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        task_sqls = list(task_sqls)
        try:
            frame = _with_hidden(self.frame, task_sqls)
            statements = [sql for task_sql in task_sqls for sql in task_sql.texts]
            error = unparsed(frame, [sql for task_sql in task_sqls for sql in task_sql.user_sql])
            if error is not None:
                return error
            # Nested in an expression next to the columns, as in the final plan: aggregates, generators and
            # aliases are refused here.
            cells = (
                F.expr(f"CASE WHEN true THEN ({t}) END").alias(f"{HIDDEN_PREFIX}p{i}")
                for i, t in enumerate(statements)
            )
            fields = frame.select("*", *cells).schema.fields[len(frame.columns) :]
            kinds = [f.dataType.simpleString() for f in fields]
        except PySparkException as error:
            return error
        conditions = [condition for task_sql in task_sqls for condition in task_sql.conditions]
        not_boolean = next(
            (i for i, c in enumerate(conditions) if c and kinds[i] != "boolean"), None
        )
        if not_boolean is not None:
            condition_sql = " ".join(
                statements[not_boolean].removeprefix("(\n").removesuffix("\n)").split()
            )
            for task_sql in task_sqls:
                for alias, column in task_sql.hidden.items():
                    condition_sql = condition_sql.replace(alias, shown_text(column))
            return TypeError(f"{condition_sql} is of type {kinds[not_boolean]}, not a condition")
        return None


def _is_random(error: str) -> bool:
    """Return whether an error reports a random expression.

    A record's file name is nondeterministic for Spark, but constant.
    """
    return "NONDETERMINISTIC" in error and "input_file_" not in error


def _with_hidden(frame: DataFrame, task_sqls: Iterable[TaskSql]) -> DataFrame:
    """Add the hidden columns that expressions read to a frame: Columns, and results of joins."""
    task_sqls = list(task_sqls)
    hidden = [c.alias(alias) for task_sql in task_sqls for alias, c in task_sql.hidden.items()]
    frame = frame.select("*", *hidden) if hidden else frame
    for task_sql in task_sqls:
        for alias, lookup in task_sql.lookups.items():
            frame = _join_lookup(frame, alias, lookup)
    return frame


def _join_lookup(frame: DataFrame, alias: str, lookup: KeyLookup) -> DataFrame:
    """Add a column to a frame that is true if another table has the record's key, and null if not.

    Both sides are cast to their common type before duplicate keys of the other table are removed. Otherwise
    keys that are equal only after the cast, such as 1 and 1.0, would duplicate a record.
    """
    from pyspark.sql import functions as F

    other = frame.sparkSession.table(lookup.table)
    keys = [f"{alias}k{i}" for i in range(len(lookup.columns))]
    kinds = [
        _common_type(frame.selectExpr(column), other.selectExpr(other_column))
        for column, other_column in zip(lookup.columns, lookup.other_columns, strict=True)
    ]
    cells = zip(lookup.other_columns, kinds, keys, strict=True)
    other_keys = other.selectExpr(*(f"CAST({o} AS {kind}) AS {key}" for o, kind, key in cells))
    other_keys = other_keys.where(" AND ".join(f"{key} IS NOT NULL" for key in keys)).distinct()
    pairs = zip(lookup.columns, kinds, keys, strict=True)
    equal = " AND ".join(f"CAST({column} AS {kind}) = {key}" for column, kind, key in pairs)
    flagged = other_keys.withColumn(alias, F.lit(True))  # noqa: FBT003 - a literal of Spark
    return frame.join(flagged, F.expr(equal), "left").drop(*keys)


def _common_type(left: DataFrame, right: DataFrame) -> str:
    """Return the type to which Spark casts both columns to compare them."""
    kinds = [frame.schema.fields[0].dataType.simpleString() for frame in (left, right)]
    if kinds[0] == kinds[1]:
        return kinds[0]
    nulls = ", ".join(f"CAST(NULL AS {kind})" for kind in kinds)
    return (
        left.sparkSession.sql(f"SELECT coalesce({nulls})").schema.fields[0].dataType.simpleString()
    )


def _fix_expressions(fix: DQMFix) -> list[Expression]:
    return [expression for arm in fix.arms for expression in (arm.condition, arm.value)]


def _independent(fixes: Sequence[DQMFix]) -> list[DQMFix]:
    """Return the longest prefix of fixes that neither read nor write each other's columns."""
    step: list[DQMFix] = []
    written_columns: set[str] = set()
    for fix in fixes:
        pieces = [piece for e in _fix_expressions(fix) for piece in e.pieces]
        # The columns read by a function, a Column or SQL with comments are unknown.
        plain = all(
            isinstance(piece, str) and "--" not in piece and "/*" not in piece for piece in pieces
        )
        target = str(parts(fix.column)[0]).casefold()
        read_columns = {target}
        for piece in pieces:
            if isinstance(piece, str):
                read_columns |= words_in(piece)
        if step and (not plain or read_columns & written_columns):
            break
        step.append(fix)
        written_columns.add(target)
    return step


def _task_error(task: DQMTask, error: Exception) -> MetricError:
    kind = "fix" if isinstance(task, DQMFix) else "rule"
    message = str(error) if isinstance(error, MetricError | TypeError) else describe(error)
    return UnresolvedExpressionError(f"{kind} {task.name!r}: {message}")
