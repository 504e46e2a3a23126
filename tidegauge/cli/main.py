"""The ``tidegauge`` command-line interface.

The exit status is 0 on success, 1 if tidegauge failed or was misused, and 2 if the data failed. A time limit
ends a command that hangs, for example in a regular expression.
"""

from __future__ import annotations

import gc
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
from tidegauge.cli.options import TOOL_FAILED, CommandEntry, LazyGroup, new_app, print_message
from tidegauge.cli.output import SafeTerminal

MAX_LIMIT_MINUTES = 1_000_000
COLLECTED_OBJECTS = 50_000
"""New objects after which Python searches for garbage. With its default of 700, this takes a fifth of the CPU time
of a run with nothing new, because importing modules creates many objects and no garbage."""
GRACE_SECONDS = 30.0
"""Time for an interrupted command to close its runs, before its process is killed."""

_INTERRUPTED = 130
"""Status that newer releases of Typer return after Ctrl-C, without a message."""


class TimeLimitReached(SystemExit):
    """The time limit of a command has passed. It interrupts the command like Ctrl-C."""


@contextmanager
def time_limit(minutes: float | None, *, ends_process: bool = False) -> Iterator[None]:
    """Interrupt the block after a time limit.

    Spark cannot stop a task within a regular expression, and threads can wait for such a task. If the
    process is still running 30 seconds after the interruption, it exits immediately, and Spark's Java
    process exits as well. Committed batches are kept.

    Parameters
    ----------
    minutes : float, optional
        The limit; None for no limit.
    ends_process : bool
        Whether the process runs only this block, so that a hanging process can be killed.

    Raises
    ------
    TimeLimitReached
        In the block.
    SetupError
        If the limit is not a positive number of minutes, or the system does not have timers (Windows).
    """
    if minutes is None:
        yield
        return
    if not hasattr(signal, "setitimer"):
        msg = "--time-limit needs POSIX timers, which this system does not have"
        raise SetupError(msg)
    if not 0 < minutes <= MAX_LIMIT_MINUTES:
        msg = f"Invalid --time-limit {minutes:g}: use a number of minutes above 0 and up to {MAX_LIMIT_MINUTES:,}."
        raise SetupError(msg)
    message = f"The time limit of {minutes:g} minutes has passed"

    def end() -> None:
        print_message(f"{message}, and the command still hangs. The process was killed.")
        os._exit(TOOL_FAILED)

    kill_timer = Timer(GRACE_SECONDS, end)
    kill_timer.daemon = True

    def interrupt(*_: object) -> None:
        kill_timer.start()
        raise TimeLimitReached(message)

    previous_handler = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, minutes * 60)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
        if not ends_process:
            kill_timer.cancel()


COMMAND_PANELS = {
    "Get started": {
        "demo": CommandEntry(
            "tidegauge.cli.begin:demo",
            "Run a demonstration on real data: all flights from New York in 2013.",
        ),
        "doctor": CommandEntry(
            "tidegauge.cli.begin:doctor",
            "Check each part of the installation, and suggest fixes for problems.",
        ),
        "notebooks": CommandEntry(
            "tidegauge.cli.begin:notebooks",
            "Copy the example notebooks into a folder; existing files are not replaced.",
        ),
        "schema": CommandEntry(
            "tidegauge.cli.begin:schema",
            "Write JSON Schemas of suite, rules, consistency and settings files, for completion and checks in editors.",
        ),
    },
    "Measure": {
        "profile": CommandEntry(
            "tidegauge.cli.measuring:profile",
            "Profile tables, and propose suite files and rules with a comment on each choice.",
        ),
        "explain": CommandEntry(
            "tidegauge.cli.measuring:explain",
            "Show the measurement plan of the suites' tables: jobs, passes, columns and state sizes.",
        ),
        "run": CommandEntry(
            "tidegauge.cli.measuring:run",
            "Measure new and changed partitions, detect anomalies, and evaluate the suites' checks.",
        ),
        "check": CommandEntry(
            "tidegauge.cli.measuring:check",
            "Measure new and changed partitions, and evaluate the checks of suite files on them.",
        ),
        "watch": CommandEntry(
            "tidegauge.cli.measuring:watch",
            "Watch all tables of folders or catalogs by their metadata, without scanning data or writing suites.",
        ),
    },
    "Explore": {
        "report": CommandEntry(
            "tidegauge.cli.showing:report",
            "Print an overview of all datasets and their failed rules and checks, or write it as an HTML page.",
        ),
        "dashboard": CommandEntry(
            "tidegauge.cli.showing:dashboard",
            "Serve the dashboard, and open it in the browser.",
        ),
        "metrics": CommandEntry(
            "tidegauge.cli.showing:metrics", "Print the metric history of a dataset."
        ),
        "detect": CommandEntry(
            "tidegauge.cli.anomalies:detect",
            "Detect anomalies in new and changed metrics, and print all current anomalies.",
        ),
        "backtest": CommandEntry(
            "tidegauge.cli.anomalies:backtest",
            "Compare detectors on stored history, without storing anything.",
        ),
        "export": CommandEntry(
            "tidegauge.cli.showing:export",
            "Export metrics: the history as csv or parquet, or the newest values as openlineage or prometheus.",
        ),
        "anomalies": CommandEntry(
            "tidegauge.cli.anomalies:anomalies_app",
            "List, explain and label anomalies and incidents.",
        ),
    },
    "Maintain": {
        "dataset": CommandEntry(
            "tidegauge.cli.maintaining:datasets_app",
            "List, rename, retire, label and drop datasets.",
        ),
        "db": CommandEntry(
            "tidegauge.cli.maintaining:db_app",
            "Upgrade, check, back up, copy and clean the database.",
        ),
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
"""Commands and groups of commands by panel of ``--help``."""


class _Commands(LazyGroup):
    panels = COMMAND_PANELS


app = new_app(
    "Measure data quality, store metric history, and detect anomalies.",
    name="tidegauge",
    group=_Commands,
)


def main() -> None:
    """Run the command line and exit with its status."""
    warnings.showwarning = _print_warning
    gc.set_threshold(COLLECTED_OBJECTS)
    try:
        status = run_command(sys.argv[1:], ends_process=True)
    finally:
        gc.freeze()  # otherwise Python searches all modules for garbage several times while it exits
    sys.exit(status)


def run_command(arguments: list[str], *, ends_process: bool = False) -> int:
    """Run one command, print errors on one line, and return the exit status.

    Parameters
    ----------
    arguments : list of str
        Arguments of the command line, without the program.
    ends_process : bool
        Whether the process runs only this command, so that a time limit can kill the process.
    """
    try:
        with redirect_stdout(cast("TextIO", SafeTerminal(sys.stdout))):
            status = app(arguments, prog_name="tidegauge", standalone_mode=False, obj=ends_process)
    except typer.TyperException as error:  # typer would exit with 2, reserved for data failures
        context = getattr(error, "ctx", None)
        command = "tidegauge" if context is None else context.command_path
        print_message(f"error: {error.format_message().rstrip('.')}; see `{command} --help`")
        return TOOL_FAILED
    except (KeyboardInterrupt, typer.Abort):
        status = _INTERRUPTED
    except TimeLimitReached as limit:
        print_message(f"{limit}. Committed batches are kept; the next run resumes after them.")
        return TOOL_FAILED
    except TidegaugeError as error:
        print_message(f"error: {error}")
        return TOOL_FAILED
    except Exception as error:
        if os.environ.get("TIDEGAUGE_TRACE"):
            raise
        print_message(f"error: {describe(error)} (set TIDEGAUGE_TRACE=1 for a traceback)")
        return TOOL_FAILED
    if status == _INTERRUPTED:
        print_message("Interrupted. Committed batches are kept; the next run resumes after them.")
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
    """Print a warning on one line, without the file and line of Python that raised it."""
    print(for_terminal(f"warning: {message}"), file=sys.stderr if file is None else file)


def _print_version(is_given: bool) -> None:
    if is_given:
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
            help="Stop the command after this time; committed batches are kept (default: no limit).",
        ),
    ] = None,
) -> None:
    """Measure data quality, store metric history, and detect anomalies."""
    context.with_resource(time_limit(minutes, ends_process=bool(context.obj)))
