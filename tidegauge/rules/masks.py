"""Evaluation of rules and fixes as native Spark expressions: bit masks and repaired columns.

Evaluation is lazy, and every expression appears once in the plan: Spark generates one program for
all of them.
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
    UNSTEADY,
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

OWN = "__tidegauge_"
_BARRIER = "CAST(spark_partition_id() < 0 AS BIGINT)"
"""Always 0, but nondeterministic to Spark, which therefore pushes no filters through it. A pushed filter
repeats the whole expression tree of a column, which triples with each fix that depends on another."""
_OPEN_STEPS = 2
"""Number of steps of fixes without a barrier, which filters may pass."""


@dataclass(frozen=True)
class Masked:
    """A frame with the bit words of rules and fixes as extra columns.

    Attributes
    ----------
    frame : DataFrame
        The columns of the data, with repaired values, and the hidden columns.
    tasks : Tasks
    columns : tuple of str
        Columns of the data, without the hidden ones.
    originals : mapping of str to str
        Hidden column with the original values of a repaired column; filled only if fixes and rules
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
        """SQL for the repaired values, cast to string where their type has no hash."""
        kinds = {f.name: f.dataType.simpleString() for f in self.frame.schema.fields}
        unhashed = {name for name in self.repaired if re.search("map<|variant", kinds[name])}
        return [
            f"CAST({quote(name)} AS STRING)" if name in unhashed else quote(name)
            for name in self.repaired
        ]

    @property
    def kept(self) -> DataFrame:
        """The records that no rule rejects, repaired, with the columns of the data."""
        return self.frame.where(
            conjunction_sql(self.tasks.kept(self.tasks.rules), self.words)
        ).selectExpr(*map(quote, self.columns))

    def rejected(self, *more: str) -> DataFrame:
        """Return the rejected records with their original values and additional expressions."""
        kept = conjunction_sql(self.tasks.kept(self.tasks.rules), self.words)
        columns = [
            f"{self.originals[c]} AS {quote(c)}" if c in self.originals else quote(c)
            for c in self.columns
        ]
        return self.frame.where(f"NOT ({kept})").selectExpr(*columns, *more)

    def broken(self) -> str:
        """Return SQL for the names of the rules that a record breaks, as an array of strings."""
        return _compact(
            f"CASE WHEN {self.breaks_sql(rule)} THEN {literal(rule.name)} END"
            for rule in self.tasks.ordered
        )

    def reasons(self, run: int | None) -> str:
        """Return SQL for why a record breaks rules, as an array of structs; see `Applied.flagged`."""
        told = (
            f"CASE WHEN {self.breaks_sql(rule)} THEN named_struct('rule', {literal(rule.name)},"
            f" 'message', {literal(rule.reason)}, 'severity', {literal(rule.severity)},"
            f" 'tags', CAST(array({', '.join(map(literal, rule.tags))}) AS ARRAY<STRING>),"
            f" 'run', CAST({'NULL' if run is None else run} AS BIGINT), 'time', current_timestamp()) END"
            for rule in self.tasks.ordered
        )
        listed = ", ".join(told)
        return f"array_compact(array({listed}))" if listed else f"CAST(array() AS {REASONS})"

    def charged_rules_sql(self) -> str:
        """Return SQL for the names of the rules a record is charged to, as an array of strings.

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
        place = self.tasks.places[rule.name]
        return BitTest(place.word, place.bits(breaking_bits(rule)), any=True).sql(self.words)


REASONS = (
    "ARRAY<STRUCT<rule: STRING, message: STRING, severity: STRING, tags: ARRAY<STRING>,"
    " run: BIGINT, time: TIMESTAMP>>"
)
"""Type of the column that tells why a record breaks rules."""


def _compact(names: Iterable[str]) -> str:
    """Return SQL for an array of the non-null strings."""
    listed = ", ".join(names)
    return f"array_compact(array({listed}))" if listed else "CAST(array() AS ARRAY<STRING>)"


def word_names(tasks: Tasks) -> list[str]:
    """Return the names of the columns that hold the bit words."""
    return [f"{OWN}w{i}" for i in range(tasks.words)]


def conjunction_sql(tests: Iterable[BitTest], names: Sequence[str]) -> str:
    """Return SQL for a conjunction of tests on bit words."""
    return " AND ".join(test.sql(names) for test in tests) or "true"


@handled_errors()
def mask(
    data: DataFrame,
    tasks: Tasks,
    skip: Iterable[str] = (),
    *,
    by: Sequence[str] | None = None,
) -> Masked:
    """Apply rules and fixes to a frame, except those in ``skip``; lazy, no action is run.

    Tasks that Spark cannot resolve on this frame, and those whose answer is not the record's own,
    are skipped and reported in the result's ``failures``.

    Parameters
    ----------
    data : DataFrame
    tasks : Tasks
    skip : iterable of str
    by : sequence of str, optional
        The partition columns, if only some partitions are read at a time: tasks that look beyond a
        record's own partition are then refused.
    """
    check_distinct_columns(data)
    taken = [name for name in data.columns if re.fullmatch(rf"(?i){OWN}[cefopvw]\d+|{OWN}n", name)]
    if taken:
        msg = f"the data has a column {taken[0]!r}, a name that is needed for counting; rename it"
        raise RuleError(msg)
    builder = _Builder(data, tasks, dict.fromkeys(skip), by)
    builder.ask(tasks.before, guarded=False)
    if tasks.after and tasks.fixes:
        builder.keep_originals()
    builder.repair()
    builder.ask(tasks.after, guarded=True)
    failures = {name: error for name, error in builder.skipped.items() if error is not None}
    columns = tuple(data.columns)
    repaired = tuple(builder.repaired)
    return Masked(builder.frame, tasks, columns, builder.originals, repaired, failures)


TypedExpression = tuple[Expression, str | None]
"""An expression, and the type to cast it to; None for a condition."""


@dataclass(frozen=True)
class TaskSql:
    """Generated SQL of a task: expressions, Columns and lookups by hidden name, condition flags.

    ``own`` is the SQL that the user wrote, without what surrounds it.
    """

    texts: list[str]
    hidden: dict[str, Column]
    lookups: dict[str, KeyLookup]
    conditions: list[bool]
    own: list[str]


@dataclass
class _Builder:
    """Builder of the masked frame, in steps; each step sees the columns of the previous ones."""

    frame: DataFrame
    tasks: Tasks
    skipped: dict[str, MetricError | None]
    by: Sequence[str] | None = None
    originals: dict[str, str] = field(default_factory=dict)
    repaired: dict[str, None] = field(default_factory=dict)
    hidden: int = 0

    def ask(self, rules: Sequence[DQMRule], *, guarded: bool) -> None:
        """Add the bit words of rules; if guarded, evaluate them only for records kept so far."""
        found = self._resolved(rules, lambda rule: [(rule.expression, None)])
        terms: dict[int, list[str]] = {}
        kept = conjunction_sql(self.tasks.kept(self.tasks.before), word_names(self.tasks))
        for rule in rules:
            place = self.tasks.places[rule.name]
            terms.setdefault(place.word, [])
            if rule.name in found:
                (text,) = found[rule.name]
                # Evaluates the condition once: 0 if true, 1 if false, 2 if null.
                code = f"coalesce(CAST(NOT ({text}) AS BIGINT), 2L)"
                code = f"CASE WHEN {kept} THEN {code} ELSE 0L END" if guarded else code
                terms[place.word].append(f"shiftleft({code}, {place.shift})")
        if guarded:
            for some in terms.values():
                some.append(_BARRIER)
        self._add_words(terms)

    def keep_originals(self) -> None:
        """Copy the columns that fixes will replace to hidden columns."""
        named = {self._column_of(fix): f"{OWN}o{i}" for i, fix in enumerate(self.tasks.fixes)}
        self.originals = {c: hidden for c, hidden in named.items() if c is not None}
        self._select(*(f"{quote(c)} AS {hidden}" for c, hidden in self.originals.items()))

    def repair(self) -> None:
        """Apply the fixes in order, grouping independent fixes into one step."""
        kept = conjunction_sql(self.tasks.kept(self.tasks.before), word_names(self.tasks))
        left = [fix for fix in self.tasks.fixes if fix.name not in self.skipped]
        steps = 0
        while left:
            step = _independent(left)
            left = left[len(step) :]
            steps += 1
            barrier = f" | {_BARRIER}" if steps > _OPEN_STEPS else ""
            types = {f.name: f.dataType.simpleString() for f in self.frame.schema.fields}
            targets = {fix.name: types.get(str(self._column_of(fix)), "STRING") for fix in step}

            def of_fix(fix: DQMFix, targets: Mapping[str, str] = targets) -> list[TypedExpression]:
                kinds = (None, targets[fix.name])
                return list(zip(_of_fix(fix), kinds * len(fix.arms), strict=True))

            found = self._resolved(step, of_fix)
            codes, values = [], {}
            for fix in step:
                column = self._column_of(fix)
                if fix.name not in found or column is None:
                    continue
                code, whens = f"{OWN}f{self.tasks.fixes.index(fix)}", []
                pairs = list(zip(found[fix.name][::2], found[fix.name][1::2], strict=True))
                arms = " ".join(f"WHEN {when} THEN {1 << i}L" for i, (when, _) in enumerate(pairs))
                arms = f"CASE WHEN {kept} THEN CASE {arms} ELSE 0L END ELSE 0L END"
                codes.append(f"{arms}{barrier} AS {code}")
                for i, (_, value) in enumerate(pairs):
                    whens.append(f"WHEN {code} = {1 << i}L THEN {value}")
                values[column] = f"CASE {' '.join(whens)} ELSE {quote(column)} END"
            if codes:
                self._select(*codes)
                self._replace(values)
                self.repaired.update(dict.fromkeys(values))
        terms: dict[int, list[str]] = {}
        for i, fix in enumerate(self.tasks.fixes):
            place = self.tasks.places[fix.name]
            terms.setdefault(place.word, [])
            if f"{OWN}f{i}" in self.frame.columns:
                terms[place.word].append(f"shiftleft({OWN}f{i}, {place.shift})")
        self._add_words(terms)

    def _column_of(self, fix: DQMFix) -> str | None:
        """Return a fix's column as the frame spells it; None, skipping the fix, if there is none."""
        try:
            found = Schema.from_frame(self.frame).field(fix.column)
        except MetricError as missing:
            self.skipped.setdefault(fix.name, _named(fix, missing))
            return None
        name = next((n for n in self.frame.columns if quote(n) == found.sql), None)
        if name is None:
            error = UnresolvedExpressionError(
                f"fix {fix.name!r}: {fix.column!r} is inside a column; repair the whole column"
            )
            self.skipped.setdefault(fix.name, error)
        return name

    def _add_words(self, terms: Mapping[int, Sequence[str]]) -> None:
        names = word_names(self.tasks)
        self._select(
            *(f"{' | '.join(some) or '0L'} AS {names[word]}" for word, some in terms.items())
        )

    def _select(self, *more: str) -> None:
        if more:
            self.frame = self.frame.selectExpr("*", *more)

    def _replace(self, values: Mapping[str, str]) -> None:
        self.frame = self.frame.selectExpr(
            *(
                f"{values[name]} AS {quote(name)}" if name in values else quote(name)
                for name in self.frame.columns
            )
        )

    def _resolved(
        self,
        some: Sequence[DQMTask],
        expressions: Callable[[Any], list[TypedExpression]],
    ) -> dict[str, list[str]]:
        """Return the SQL of the tasks that resolve, and add their hidden columns to the frame."""
        made: dict[str, TaskSql] = {}
        for task in some:
            if task.name in self.skipped:
                continue
            try:
                made[task.name] = self._written(expressions(task))
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                self.skipped[task.name] = _named(task, error)
        by_name = {task.name: task for task in some}
        if self._problem(made.values()) is not None:
            for name, one in list(made.items()):
                problem = self._problem([one])
                if problem is not None:
                    self.skipped[name] = _named(by_name[name], problem)
                    del made[name]
        if self._refused_in_aggregate(made.values()):
            for name, one in list(made.items()):
                if _is_random(self._refused_in_aggregate([one])):
                    self.skipped[name] = _named(by_name[name], UnresolvedExpressionError(UNSTEADY))
                    del made[name]
        self.frame = _with_hidden(self.frame, made.values())
        schema = Schema.from_frame(self.frame)
        return {
            name: [
                compare_exactly(text, schema) if condition else text
                for text, condition in zip(one.texts, one.conditions, strict=True)
            ]
            for name, one in made.items()
        }

    def _written(self, expressions: Iterable[TypedExpression]) -> TaskSql:
        """Generate the SQL of expressions, with hidden columns in place of Columns."""
        texts, conditions, own = [], [], []
        hidden: dict[str, Column] = {}
        lookups: dict[str, KeyLookup] = {}
        for expression, kind in expressions:
            text = told = ""
            for piece in expression.pieces:
                value = piece
                if isinstance(piece, KeyLookup):
                    alias = self._alias()
                    lookups[alias] = piece
                    known = " AND ".join(f"{column} IS NOT NULL" for column in piece.columns)
                    text += f"CASE WHEN {known} THEN {alias} IS NOT NULL END"
                    continue
                if isinstance(piece, UniqueKey):
                    text += piece.within(list(map(quote, self.by or ())))
                    continue
                if callable(piece) and not isinstance(piece, str) and not is_column(piece):
                    value = piece(self.frame)
                    value = f"(\n{value}\n)" if isinstance(value, str) else value
                told += shown_text(value)
                if is_column(value):
                    alias = self._alias()
                    hidden[alias] = value
                    value = alias
                elif str(value).startswith("(\n"):
                    own.append(str(value).removeprefix("(\n").removesuffix("\n)"))
                text += str(value)
            check_deterministic(told)
            if self.by is not None:
                check_record_by_record(told, self.by)
            texts.append(text if kind is None else f"CAST({text} AS {kind})")
            conditions.append(kind is None)
        return TaskSql(texts, hidden, lookups, conditions, own)

    def _alias(self) -> str:
        self.hidden += 1
        return f"{OWN}e{self.hidden - 1}"

    def _refused_in_aggregate(self, some: Iterable[TaskSql]) -> str:
        """Return Spark's error if it takes an expression within no aggregate function; empty if it takes all.

        So it refuses nondeterministic expressions, which nothing else tells of a user's function, and
        windows.
        """
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        some = list(some)
        columns = [column for one in some for column in one.hidden.values()]
        columns += [F.expr(f"({text})") for one in some for text in one.texts]
        if not columns:
            return ""
        try:
            _ = _with_hidden(self.frame, some).agg(*(F.max(c.isNotNull()) for c in columns)).schema
        except PySparkException as error:
            return str(error)
        return ""

    def _problem(self, some: Iterable[TaskSql]) -> Exception | None:
        """Return the error of expressions that do not resolve or are not boolean, or None."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        some = list(some)
        try:
            frame = _with_hidden(self.frame, some)
            texts = [text for one in some for text in one.texts]
            error = unparsed(frame, [text for one in some for text in one.own])
            if error is not None:
                return error
            # Nested in an expression beside the columns, as in the final plan: aggregates, generators and
            # aliases are refused here.
            cells = (
                F.expr(f"CASE WHEN true THEN ({t}) END").alias(f"{OWN}p{i}")
                for i, t in enumerate(texts)
            )
            found = frame.select("*", *cells).schema.fields[len(frame.columns) :]
            kinds = [f.dataType.simpleString() for f in found]
        except PySparkException as error:
            return error
        conditions = [condition for one in some for condition in one.conditions]
        wrong = next((i for i, c in enumerate(conditions) if c and kinds[i] != "boolean"), None)
        if wrong is not None:
            told = " ".join(texts[wrong].removeprefix("(\n").removesuffix("\n)").split())
            for one in some:
                for alias, column in one.hidden.items():
                    told = told.replace(alias, shown_text(column))
            return TypeError(f"{told} is of type {kinds[wrong]}, not a condition")
        return None


def _is_random(error: str) -> bool:
    """Return whether an error is of a random expression; which file a record lies in stays as it is."""
    return "NONDETERMINISTIC" in error and "input_file_" not in error


def _with_hidden(frame: DataFrame, some: Iterable[TaskSql]) -> DataFrame:
    """Return a frame with the hidden columns that expressions read: Columns, and results of joins."""
    some = list(some)
    hidden = [c.alias(alias) for one in some for alias, c in one.hidden.items()]
    frame = frame.select("*", *hidden) if hidden else frame
    for one in some:
        for alias, lookup in one.lookups.items():
            frame = _joined(frame, alias, lookup)
    return frame


def _joined(frame: DataFrame, alias: str, lookup: KeyLookup) -> DataFrame:
    """Return a frame with a column that is true where another table has the key, and null elsewhere.

    Both sides are cast to their common type before the other's keys are made distinct: keys that are
    equal only after a cast, such as 1 and 1.0, would double a record.
    """
    from pyspark.sql import functions as F

    other = frame.sparkSession.table(lookup.table)
    keys = [f"{alias}k{i}" for i in range(len(lookup.columns))]
    kinds = [
        _common_type(frame.selectExpr(own), other.selectExpr(theirs))
        for own, theirs in zip(lookup.columns, lookup.others, strict=True)
    ]
    cells = zip(lookup.others, kinds, keys, strict=True)
    known = other.selectExpr(*(f"CAST({o} AS {kind}) AS {key}" for o, kind, key in cells))
    known = known.where(" AND ".join(f"{key} IS NOT NULL" for key in keys)).distinct()
    pairs = zip(lookup.columns, kinds, keys, strict=True)
    equal = " AND ".join(f"CAST({own} AS {kind}) = {key}" for own, kind, key in pairs)
    found = known.withColumn(alias, F.lit(True))  # noqa: FBT003 - a literal of Spark
    return frame.join(found, F.expr(equal), "left").drop(*keys)


def _common_type(one: DataFrame, other: DataFrame) -> str:
    """Return the type to which Spark casts both columns to compare them."""
    kinds = [frame.schema.fields[0].dataType.simpleString() for frame in (one, other)]
    if kinds[0] == kinds[1]:
        return kinds[0]
    nulls = ", ".join(f"CAST(NULL AS {kind})" for kind in kinds)
    return (
        one.sparkSession.sql(f"SELECT coalesce({nulls})").schema.fields[0].dataType.simpleString()
    )


def _of_fix(fix: DQMFix) -> list[Expression]:
    return [expression for arm in fix.arms for expression in (arm.condition, arm.value)]


def _independent(fixes: Sequence[DQMFix]) -> list[DQMFix]:
    """Return the longest prefix of fixes that do not read or write each other's columns."""
    step: list[DQMFix] = []
    written: set[str] = set()
    for fix in fixes:
        pieces = [piece for e in _of_fix(fix) for piece in e.pieces]
        # The columns read by a function, a Column or SQL with comments are unknown.
        plain = all(
            isinstance(piece, str) and "--" not in piece and "/*" not in piece for piece in pieces
        )
        target = str(parts(fix.column)[0]).casefold()
        read = {target}
        for piece in pieces:
            if isinstance(piece, str):
                read |= words_in(piece)
        if step and (not plain or read & written):
            break
        step.append(fix)
        written.add(target)
    return step


def _named(task: DQMTask, error: Exception) -> MetricError:
    kind = "fix" if isinstance(task, DQMFix) else "rule"
    text = str(error) if isinstance(error, MetricError | TypeError) else describe(error)
    return UnresolvedExpressionError(f"{kind} {task.name!r}: {text}")
