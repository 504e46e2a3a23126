"""Worker of one Python side: one JSON request a line in, one marked JSON answer a line out.

    python -m benchmarks.checks.worker ours|gx|dqx FOLDER SETTINGS

A side is given the constraints once and returns which of them hold, round by round.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import time
import traceback
from importlib.metadata import version
from pathlib import Path
from unittest.mock import MagicMock

import pyspark

from benchmarks.checks.constraints import table


def session(settings):
    """Return a session of plain Spark."""
    builder = pyspark.sql.SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


class Ours:
    """`tg.verify` of one check."""

    def __init__(self, folder, settings):
        import tidegauge as tg

        self.tg = tg
        self.version = tg.__version__
        self.spark = tg.spark_session(folder, settings=settings)

    def prepare(self, constraints, values):
        """Build the check."""
        self.values = values
        check = self.tg.Check("benchmark")
        for constraint in constraints:
            check = self.add(check, *constraint)
        self.check = check

    def add(self, check, kind, column, *of):
        """Return a check with one more constraint."""
        methods = {
            "complete": lambda least: check.is_complete(column, at_least=least),
            "range": lambda low, high, least: check.is_contained_in(
                column, lower=low, upper=high, at_least=least
            ),
            "set": lambda values, least: check.is_contained_in(column, values, at_least=least),
            "pattern": lambda regex, least: check.has_pattern(column, regex, at_least=least),
            "min": lambda bound: check.has_min(column, bound),
            "max": lambda bound: check.has_max(column, (None, bound)),
            "mean": lambda low, high: check.has_mean(column, (low, high)),
            "min_length": lambda bound: check.has_min_length(column, bound),
            "max_length": lambda bound: check.has_max_length(column, (None, bound)),
            "distinct": lambda most: check.has_number_of_distinct_values(column, (None, most)),
        }
        return methods[kind](*of)

    def verify(self, data):
        """Return which constraints hold."""
        found = self.tg.verify(data, self.check, examples=self.values)
        return [one.result.passed for one in found.judged]


class GreatExpectations:
    """An expectation suite validated on a Spark frame."""

    def __init__(self, folder, settings):
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        import great_expectations as gx

        self.gx = gx
        self.version = gx.__version__
        self.spark = session(settings)

    def prepare(self, constraints, values):
        """Build the suite; each expectation says by its metadata which constraint it is."""
        self.form = "SUMMARY" if values else "BOOLEAN_ONLY"
        context = self.gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        asset = context.data_sources.add_spark("spark").add_dataframe_asset("data")
        self.batches = asset.add_batch_definition_whole_dataframe("all")
        suite = self.gx.ExpectationSuite("benchmark")
        for place, constraint in enumerate(constraints):
            suite.add_expectation(self.expectation(*constraint, meta={"place": place}))
        self.suite, self.count = context.suites.add(suite), len(constraints)

    def expectation(self, kind, column, *of, meta):
        """Return an expectation."""
        name, *options = {
            "complete": ("ColumnValuesToNotBeNull", "mostly"),
            "range": ("ColumnValuesToBeBetween", "min_value", "max_value", "mostly"),
            "set": ("ColumnValuesToBeInSet", "value_set", "mostly"),
            "pattern": ("ColumnValuesToMatchRegex", "regex", "mostly"),
            "min": ("ColumnMinToBeBetween", "min_value"),
            "max": ("ColumnMaxToBeBetween", "max_value"),
            "mean": ("ColumnMeanToBeBetween", "min_value", "max_value"),
            "min_length": ("ColumnValueLengthsToBeBetween", "min_value"),
            "max_length": ("ColumnValueLengthsToBeBetween", "max_value"),
            "distinct": ("ColumnUniqueValueCountToBeBetween", "max_value"),
        }[kind]
        made = getattr(self.gx.expectations, f"Expect{name}")
        return made(column=column, meta=meta, **dict(zip(options, of, strict=True)))

    def verify(self, data):
        """Return which expectations hold."""
        batch = self.batches.get_batch(batch_parameters={"dataframe": data})
        found = batch.validate(self.suite, result_format=self.form)
        raised = [r for r in found.results if r.exception_info.get("raised_exception")]
        if raised:
            raise RuntimeError(str(raised[0].exception_info))
        holds = {r.expectation_config.meta["place"]: bool(r.success) for r in found.results}
        return [holds[place] for place in range(self.count)]


class Dqx:
    """Rules of DQX applied to a frame; its observer counts the rows that break each.

    DQX marks rows and has no shares, so a share is judged by these counts. A mean within bounds
    is two rules.
    """

    def __init__(self, folder, settings):
        from databricks.labs.dqx import check_funcs, engine, metrics_observer, rule
        from databricks.sdk import WorkspaceClient

        self.functions, self.rule = check_funcs, rule
        self.version = version("databricks-labs-dqx")
        self.spark = session(settings)
        # No workspace is asked when checks are applied.
        client = MagicMock(spec=WorkspaceClient)
        self.engine = engine.DQEngineCore(
            client, self.spark, observer=metrics_observer.DQMetricsObserver()
        )

    def prepare(self, constraints, values):
        """Build the rules, named by the place of their constraint."""
        self.shares, self.rules = {}, []
        for place, (kind, column, *of) in enumerate(constraints):
            self.shares[place] = of[-1] if kind in {"complete", "range", "set", "pattern"} else 1.0
            for n, (function, told) in enumerate(self.calls(kind, column, *of)):
                made = (
                    self.rule.DQDatasetRule
                    if function.__name__.startswith("is_aggr")
                    else self.rule.DQRowRule
                )
                self.rules.append(made(name=f"{place}_{n}", check_func=function, **told))

    def calls(self, kind, column, *of):
        """Return functions and their arguments."""
        import pyspark.sql.functions as F

        f = self.functions
        least, most = f.is_aggr_not_less_than, f.is_aggr_not_greater_than

        def row(function, *options):
            told = dict(zip(options, of, strict=False))  # the share is left to the observer
            return function, {"column": column, "check_func_kwargs": told}

        def total(function, kind, place=0, value=column):
            told = {"limit": of[place], "aggr_type": kind}
            return function, {"column": value, "check_func_kwargs": told}

        def quoted():
            return [F.lit(value) for value in of[0]]  # a text would be read as SQL

        lengths = F.length(column)
        return {
            "complete": lambda: [row(f.is_not_null)],
            "range": lambda: [row(f.is_in_range, "min_limit", "max_limit")],
            "set": lambda: [
                (f.is_in_list, {"column": column, "check_func_kwargs": {"allowed": quoted()}})
            ],
            "pattern": lambda: [row(f.regex_match, "regex")],
            "min": lambda: [total(least, "min")],
            "max": lambda: [total(most, "max")],
            "mean": lambda: [total(least, "avg"), total(most, "avg", 1)],
            "min_length": lambda: [total(least, "min", value=lengths)],
            "max_length": lambda: [total(most, "max", value=lengths)],
            "distinct": lambda: [total(most, "count_distinct")],
        }[kind]()

    def verify(self, data):
        """Return which constraints hold."""
        marked, observation = self.engine.apply_checks(data, self.rules)
        marked.write.format("noop").mode("overwrite").save()
        found = observation.get
        broken = dict.fromkeys(self.shares, 0)
        for one in json.loads(found["check_metrics"]):
            place = int(one["check_name"].partition("_")[0])
            broken[place] = max(broken[place], one["error_count"])
        rows = found["input_row_count"]
        return [1 - broken[place] / rows >= share for place, share in self.shares.items()]


SIDES = {"ours": Ours, "gx": GreatExpectations, "dqx": Dqx}


def main():
    """Answer until there are no more requests."""
    name, folder, settings = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    # Answers go to what was the standard output; whatever else is printed goes to the log.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    shutil.rmtree(folder, ignore_errors=True)
    side = SIDES[name](folder, settings)
    path, holds = "", []
    for line in sys.stdin:
        request = json.loads(line)
        answer = {}
        try:
            match request["stage"]:
                case "hello":
                    answer = {"version": side.version, "spark": pyspark.__version__}
                case "data":
                    table(side.spark, request["path"], request["rows"])
                case "prepare":
                    path = request["path"]
                    side.prepare(request["case"]["constraints"], request["case"]["values"])
                case "before":
                    gc.collect()
                    side.spark._jvm.System.gc()  # noqa: SLF001
                case "run":
                    started = time.perf_counter()
                    holds = side.verify(side.spark.read.parquet(path))
                    answer = {"seconds": time.perf_counter() - started}
                case "values":
                    answer = {"values": holds}
        except Exception as error:  # noqa: BLE001 - it is the answer
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
        print("@@" + json.dumps(answer), file=out, flush=True)
    side.spark.stop()


if __name__ == "__main__":
    main()
