"""Worker of one Python side: one JSON request per input line, one marked JSON answer per output line.

    python -m benchmarks.checks.worker ours|gx|dqx FOLDER SETTINGS

A side gets the constraints once and returns in each round which of them hold.
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
    """Return a plain Spark session."""
    builder = pyspark.sql.SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


class Ours:
    """`tg.verify` of one check, on the folder: without Spark where that is exact."""

    takes_folder = True

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

    def add(self, check, kind, column, *arguments):
        """Return a check with one more constraint."""
        methods = {
            "complete": lambda share: check.is_complete(column, at_least=share),
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
            "distinct": lambda bound: check.has_number_of_distinct_values(column, (None, bound)),
        }
        return methods[kind](*arguments)

    def verify(self, data):
        """Return which constraints hold."""
        result = self.tg.verify(data, self.check, examples=self.values)
        return [constraint.result.passed for constraint in result.judged]


class GreatExpectations:
    """An expectation suite validated on a Spark frame."""

    takes_folder = False

    def __init__(self, folder, settings):
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        import great_expectations as gx

        self.gx = gx
        self.version = gx.__version__
        self.spark = session(settings)

    def prepare(self, constraints, values):
        """Build the suite; the metadata of each expectation contains the index of its constraint."""
        self.form = "SUMMARY" if values else "BOOLEAN_ONLY"
        context = self.gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        asset = context.data_sources.add_spark("spark").add_dataframe_asset("data")
        self.batches = asset.add_batch_definition_whole_dataframe("all")
        suite = self.gx.ExpectationSuite("benchmark")
        for index, constraint in enumerate(constraints):
            suite.add_expectation(self.expectation(*constraint, meta={"place": index}))
        self.suite, self.count = context.suites.add(suite), len(constraints)

    def expectation(self, kind, column, *arguments, meta):
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
        expectation = getattr(self.gx.expectations, f"Expect{name}")
        return expectation(column=column, meta=meta, **dict(zip(options, arguments, strict=True)))

    def verify(self, data):
        """Return which expectations hold."""
        batch = self.batches.get_batch(batch_parameters={"dataframe": data})
        result = batch.validate(self.suite, result_format=self.form)
        raised = [r for r in result.results if r.exception_info.get("raised_exception")]
        if raised:
            raise RuntimeError(str(raised[0].exception_info))
        holds = {r.expectation_config.meta["place"]: bool(r.success) for r in result.results}
        return [holds[index] for index in range(self.count)]


class Dqx:
    """Rules of DQX applied to a frame; its observer counts the rows that violate each rule.

    DQX marks rows and has no shares, so shares are computed from these counts. A mean within bounds
    needs two rules.
    """

    takes_folder = False

    def __init__(self, folder, settings):
        from databricks.labs.dqx import check_funcs, engine, metrics_observer, rule
        from databricks.sdk import WorkspaceClient

        self.functions, self.rule = check_funcs, rule
        self.version = version("databricks-labs-dqx")
        self.spark = session(settings)
        # Applying checks needs no workspace.
        client = MagicMock(spec=WorkspaceClient)
        self.engine = engine.DQEngineCore(
            client, self.spark, observer=metrics_observer.DQMetricsObserver()
        )

    def prepare(self, constraints, values):
        """Build the rules, named by the index of their constraint."""
        self.shares, self.rules = {}, []
        for index, (kind, column, *arguments) in enumerate(constraints):
            self.shares[index] = (
                arguments[-1] if kind in {"complete", "range", "set", "pattern"} else 1.0
            )
            for n, (function, options) in enumerate(self.calls(kind, column, *arguments)):
                rule = (
                    self.rule.DQDatasetRule
                    if function.__name__.startswith("is_aggr")
                    else self.rule.DQRowRule
                )
                self.rules.append(rule(name=f"{index}_{n}", check_func=function, **options))

    def calls(self, kind, column, *arguments):
        """Return functions and their arguments."""
        import pyspark.sql.functions as F

        f = self.functions
        at_least, at_most = f.is_aggr_not_less_than, f.is_aggr_not_greater_than

        def row(function, *options):
            # The last argument, the share, is compared with the observer's counts.
            keywords = dict(zip(options, arguments, strict=False))
            return function, {"column": column, "check_func_kwargs": keywords}

        def total(function, kind, index=0, value=column):
            keywords = {"limit": arguments[index], "aggr_type": kind}
            return function, {"column": value, "check_func_kwargs": keywords}

        def quoted():
            return [F.lit(value) for value in arguments[0]]  # a string would be read as SQL

        lengths = F.length(column)
        return {
            "complete": lambda: [row(f.is_not_null)],
            "range": lambda: [row(f.is_in_range, "min_limit", "max_limit")],
            "set": lambda: [
                (f.is_in_list, {"column": column, "check_func_kwargs": {"allowed": quoted()}})
            ],
            "pattern": lambda: [row(f.regex_match, "regex")],
            "min": lambda: [total(at_least, "min")],
            "max": lambda: [total(at_most, "max")],
            "mean": lambda: [total(at_least, "avg"), total(at_most, "avg", 1)],
            "min_length": lambda: [total(at_least, "min", value=lengths)],
            "max_length": lambda: [total(at_most, "max", value=lengths)],
            "distinct": lambda: [total(at_most, "count_distinct")],
        }[kind]()

    def verify(self, data):
        """Return which constraints hold."""
        marked, observation = self.engine.apply_checks(data, self.rules)
        marked.write.format("noop").mode("overwrite").save()
        metrics = observation.get
        broken = dict.fromkeys(self.shares, 0)
        for check in json.loads(metrics["check_metrics"]):
            index = int(check["check_name"].partition("_")[0])
            broken[index] = max(broken[index], check["error_count"])
        rows = metrics["input_row_count"]
        return [1 - broken[index] / rows >= share for index, share in self.shares.items()]


SIDES = {"ours": Ours, "gx": GreatExpectations, "dqx": Dqx}


def main():
    """Answer requests until the input ends."""
    name, folder, settings = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    # Answers go to the original standard output; all other output goes to the log.
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
                    frame = None if side.takes_folder else side.spark.read.parquet(path)
                    holds = side.verify(path if frame is None else frame)
                    answer = {"seconds": time.perf_counter() - started}
                case "values":
                    answer = {"values": holds}
        except Exception as error:  # noqa: BLE001 - the error is the answer
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
        print("@@" + json.dumps(answer), file=out, flush=True)
    side.spark.stop()


if __name__ == "__main__":
    main()
