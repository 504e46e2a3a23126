"""The ``tidegauge`` command-line interface.

Exit status: 0 on success, 1 if tidegauge failed or was misused, 2 if the data failed. A time limit ends a
command that hangs, such as in a regular expression.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from threading import Timer
from typing import Annotated, TextIO, cast

import typer

from tidegauge import __version__
from tidegauge.analyzers.core.errors import SetupError, TidegaugeError, describe
from tidegauge.analyzers.core.formatting import for_terminal
from tidegauge.cli.options import TOOL_FAILED, CommandEntry, LazyGroup, new_app, say
from tidegauge.cli.output import SafeTerminal

LONGEST_MINUTES = 1_000_000
GRACE_SECONDS = 30.0
"""Time that an interrupted command has to close its runs, before its process is ended."""


class TimeLimitReached(SystemExit):
    """The time limit of a command has passed. The command is interrupted, as by Ctrl-C."""


@contextmanager
def time_limit(minutes: float | None, *, ends_process: bool = False) -> Iterator[None]:
    """Interrupt the block after some minutes; None sets no limit.

    Spark cannot stop a task within a regular expression, and threads may wait for such a task. If the
    process is still running 30 seconds after the interruption, it ends at once. Spark's Java process
    watches it and then ends as well. Committed batches are kept.

    Parameters
    ----------
    minutes : float, optional
        The limit.
    ends_process : bool
        Whether the process runs only the block, so that it may be ended.

    Raises
    ------
    TimeLimitReached
        In the block.
    SetupError
        If the limit is not a positive number of minutes, or the system has no timers (Windows).
    """
    if minutes is None:
        yield
        return
    if not hasattr(signal, "setitimer"):
        msg = "--time-limit needs POSIX timers, which this system does not have"
        raise SetupError(msg)
    if not 0 < minutes <= LONGEST_MINUTES:
        msg = f"--time-limit is a number of minutes, more than 0 and up to {LONGEST_MINUTES:,}, not {minutes:g}"
        raise SetupError(msg)
    told = f"the time limit of {minutes:g} minutes is over"

    def end() -> None:
        say(f"{told}, and something still hangs: the process is ended")
        os._exit(TOOL_FAILED)

    last = Timer(GRACE_SECONDS, end)
    last.daemon = True

    def interrupt(*_: object) -> None:
        last.start()
        raise TimeLimitReached(told)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, minutes * 60)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if not ends_process:
            last.cancel()


PANELS = {
    "Begin": {
        "demo": CommandEntry(
            "tidegauge.cli.begin:demo",
            "Run a demonstration on real data: every flight from New York in 2013.",
        ),
        "doctor": CommandEntry(
            "tidegauge.cli.begin:doctor",
            "Check the installation: report each part's status, with fixes for problems.",
        ),
        "notebooks": CommandEntry(
            "tidegauge.cli.begin:notebooks",
            "Copy the example notebooks into a folder; none that is there already is replaced.",
        ),
        "schema": CommandEntry(
            "tidegauge.cli.begin:schema",
            "Write the JSON Schema of suite, rules, consistency or settings files, for completion and checks in editors.",
        ),
    },
    "Measure": {
        "profile": CommandEntry(
            "tidegauge.cli.measuring:profile",
            "Profile tables and propose a suite file for each, and rules, with a comment on each choice.",
        ),
        "explain": CommandEntry(
            "tidegauge.cli.measuring:explain",
            "Show the plan of measuring all of the suites' tables: jobs, passes, columns, bytes of states.",
        ),
        "run": CommandEntry(
            "tidegauge.cli.measuring:run",
            "Measure new and changed partitions of the suites' tables, and detect anomalies.",
        ),
        "check": CommandEntry(
            "tidegauge.cli.measuring:check",
            "Measure new and changed partitions, and evaluate the checks of suite files on them.",
        ),
    },
    "Look": {
        "report": CommandEntry(
            "tidegauge.cli.showing:report",
            "Print an overview, a row for each dataset, and why rules and checks fail; or write it as an HTML page.",
        ),
        "dashboard": CommandEntry(
            "tidegauge.cli.showing:dashboard",
            "Serve the dashboard on this machine, and open it in the browser.",
        ),
        "metrics": CommandEntry(
            "tidegauge.cli.showing:metrics", "Print the metric history of a dataset."
        ),
        "detect": CommandEntry(
            "tidegauge.cli.anomalies:detect",
            "Detect anomalies in new and changed metrics, and print all current ones.",
        ),
        "backtest": CommandEntry(
            "tidegauge.cli.anomalies:backtest",
            "Compare detectors on stored history, without storing anything.",
        ),
        "export": CommandEntry(
            "tidegauge.cli.showing:export",
            "Export metrics: the history as csv or parquet, the newest as openlineage or prometheus.",
        ),
        "anomalies": CommandEntry(
            "tidegauge.cli.anomalies:anomalies_app",
            "List, explain and label anomalies and incidents.",
        ),
    },
    "Maintain": {
        "dataset": CommandEntry(
            "tidegauge.cli.maintaining:datasets_app", "List, retire and drop datasets."
        ),
        "db": CommandEntry("tidegauge.cli.maintaining:db_app", "The repository's database."),
        "import": CommandEntry(
            "tidegauge.cli.showing:import_app", "Import metrics from other tools."
        ),
    },
    "Other jobs": {
        "rules": CommandEntry(
            "tidegauge.cli.rules:rules_app",
            "Validate and repair records with rules, fixes and policies.",
        ),
        "griffin": CommandEntry(
            "tidegauge.cli.griffin:griffin_app", "Run Apache Griffin jobs from their JSON files."
        ),
        "consistency": CommandEntry(
            "tidegauge.cli.consistency:consistency_app",
            "Compare online (logged) with offline (backfilled) features.",
        ),
    },
}
"""Commands and groups of commands, as ``--help`` shows them."""


class _Commands(LazyGroup):
    panels = PANELS


app = new_app(
    "Measure data quality, store metric history, and detect anomalies.",
    name="tidegauge",
    group=_Commands,
)


def main() -> None:
    """Run the command line and exit with its status."""
    warnings.showwarning = _print_warning
    sys.exit(run_command(sys.argv[1:], ends_process=True))


def run_command(arguments: list[str], *, ends_process: bool = False) -> int:
    """Run one command and return its exit status; errors are printed on one line.

    Parameters
    ----------
    arguments : list of str
    ends_process : bool
        Whether the process runs only this command, so that a time limit may end the process.
    """
    try:
        with redirect_stdout(cast("TextIO", SafeTerminal(sys.stdout))):
            status = app(arguments, prog_name="tidegauge", standalone_mode=False, obj=ends_process)
    except typer.TyperException as error:  # typer would exit with 2, reserved for data failures
        context = getattr(error, "ctx", None)
        command = "tidegauge" if context is None else context.command_path
        say(f"error: {error.format_message().rstrip('.')}; see `{command} --help`")
        return TOOL_FAILED
    except (KeyboardInterrupt, typer.Abort):
        say("Interrupted. Committed batches are kept; the next run resumes after them.")
        return TOOL_FAILED
    except TimeLimitReached as over:
        say(f"{over}. Committed batches are kept; the next run resumes after them.")
        return TOOL_FAILED
    except TidegaugeError as error:
        say(f"error: {error}")
        return TOOL_FAILED
    except Exception as error:
        if os.environ.get("TIDEGAUGE_TRACE"):
            raise
        say(f"error: {describe(error)} (TIDEGAUGE_TRACE=1 shows where)")
        return TOOL_FAILED
    return status if isinstance(status, int) else 0


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning on one line; where in Python it was raised helps nobody at a command line."""
    print(for_terminal(f"warning: {message}"), file=sys.stderr if file is None else file)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"tidegauge {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="MINUTES",
            min=0,
            help="End the command after this time. Committed batches are kept.",
        ),
    ] = None,
) -> None:
    """Measure data quality, store metric history, and detect anomalies."""
    context.with_resource(time_limit(minutes, ends_process=bool(context.obj)))
