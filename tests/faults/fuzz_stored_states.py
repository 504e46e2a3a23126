"""Fuzz stored states: `python -m tests.faults.fuzz_stored_states [--rounds N] [--only KIND,KIND] [--seed N]`.

A repository gets states of every kind. Some of them are changed, all with valid checksums. It
is then used as users do: `check` reads every state, `merge` and `roll_up` merge them, and the
dashboard's queries that read states are run. All of this happens in a child process, so that
a crash is noticed; the next process continues with the next round. A table of kinds shows how
often each use was refused with an error of Tidegauge, gave a result, ended with any other
error, ended the process, or took longer than `SLOW_SECONDS`.
"""

import argparse
import faulthandler
import hashlib
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults.fuzz_states import (
    MAX_STATE_SECONDS,
    analyzers_of,
    location_of,
    mutation,
    samples_by_tag,
)

SLOW_SECONDS = 5
"""CPU time limit for one use, in seconds. CPU time does not depend on other processes."""
USES = ("check", "merge", "page")
OUTCOMES = ("refused", "answered", "raw error", "crash", "slow")
DAYS = ("2013-01-01", "2013-01-02", "2013-01-03")
PLACES = ("state", "state", "total")
"""Where a changed state is stored: usually as the state of a day, otherwise as the total of all
days, which is optional.
"""


def main() -> None:
    """Fuzz for some rounds, print the table, and exit with 1 if a state was handled wrongly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="changed states of each kind")
    parser.add_argument("--only", default="", help="beginnings of tags, separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is None:
        sys.exit(fuzz(options.only, options.rounds, options.seed))
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        StoredStates(Path(folder), samples_by_tag(options.only), options.seed).run(
            options.child, options.rounds
        )


def fuzz(prefixes: str, rounds: int, seed: int) -> int:
    """Run rounds in child processes, print the outcome of each kind, and return the exit status."""
    counts: dict[str, Counter] = defaultdict(Counter)
    details: Counter = Counter()
    first = 0
    while first < rounds:
        options = [f"--only={prefixes}", f"--rounds={rounds}", f"--seed={seed}", f"--child={first}"]
        command = [sys.executable, "-m", "tests.faults.fuzz_stored_states", *options]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        started = None
        for line in child.stdout.splitlines():
            number, tag, use, outcome, detail = json.loads(line)
            first = number + 1
            started = (number, tag, use) if outcome == "started" else None
            if outcome != "started":
                counts[tag][use, outcome] += 1
                details.update([f"{tag} {use}: {detail}"] if detail else [])
        if child.returncode != 0:
            if started is None:
                raise RuntimeError(f"round {first}: {child.stderr[-3000:]}")
            number, tag, use = started
            counts[tag][use, "crash"] += 1
            details[
                f"{tag} {use}, round {number}: exit {child.returncode} {child.stderr[-300:]!r}"
            ] += 1
    print_table(counts, rounds)
    for detail, count in details.most_common(40):
        print(f"  {count:,} x {detail}")
    total: Counter = sum((Counter(count) for count in counts.values()), Counter())
    return any(total[use, bad] for use in USES for bad in ("raw error", "crash", "slow"))


def print_table(counts: dict[str, Counter], rounds: int) -> None:
    """Print a line for each kind and a line of totals."""
    print(f"{rounds:,} changed states of each of {len(counts)} kinds")
    print(
        f"{'kind':<26}" + "".join(f"{use} {OUTCOMES[0]:<10}{'answered':<9}" for use in USES), end=""
    )
    print("".join(f"{outcome:>10}" for outcome in OUTCOMES[2:]))
    everything: Counter = sum((Counter(count) for count in counts.values()), Counter())
    for tag, count in [*sorted(counts.items()), ("all", everything)]:
        cells = [
            f"{count[use, outcome]:>{len(use) + 9}}" for use in USES for outcome in OUTCOMES[:2]
        ]
        bad = [f"{sum(count[use, outcome] for use in USES):>10}" for outcome in OUTCOMES[2:]]
        print(f"{tag:<26}" + "".join(cells) + "".join(bad))


class StoredStates:
    """A repository whose states are changed and used, round by round.

    Parameters
    ----------
    folder : Path
        The folder of its database.
    by_tag : dict of str to list of bytes
        Samples of each kind.
    seed : int
        Seed of the random changes.
    """

    def __init__(self, folder: Path, by_tag: dict[str, list[bytes]], seed: int) -> None:
        import tidegauge as tg
        from tidegauge.analyzers.core.errors import TidegaugeError
        from tidegauge.analyzers.core.state import read_state
        from tidegauge.repository.testing import commit, day, measurement
        from tidegauge.widgets.backend import Backend

        self.by_tag, self.seed = by_tag, seed
        self.repository = tg.Repository(f"sqlite:///{folder / 'stored.db'}")
        self.backend = Backend(self.repository)
        self.refusals = {error.__name__ for error in [TidegaugeError, *_subclasses(TidegaugeError)]}
        self.analyzers = {}
        self.columns = {}
        for tag, payloads in by_tag.items():
            state = read_state(tag, payloads[0])
            self.analyzers[tag] = analyzers = analyzers_of(type(state))
            if not analyzers:  # a table whose name cannot be that of a sample
                self.repository.states(tag).persist(tg.Size(), state)
                continue
            extra = [measurement(analyzer, state) for analyzer in analyzers]
            days = [day(n, extra=extra, only=analyzers) for n in range(1, len(DAYS) + 1)]
            commit(self.repository, *days, dataset=tag)
            self.repository.roll_up(tag, ["2d"])
            reply, _ = self.backend.answer(
                {"id": 0, "question": "columns", "params": {"dataset": tag}}, None
            )
            self.columns[tag] = reply["payload"]["names"]

    def run(self, first: int, rounds: int) -> None:
        """Use changed states from a round on.

        Print each use before it starts, and then its outcome.
        """
        for number in range(first, rounds):
            payloads = {
                tag: mutation(samples, f"{self.seed}/{tag}/{number}")
                for tag, samples in self.by_tag.items()
            }
            self._store(payloads, random.Random(f"{self.seed}/{number}"))
            self._check(number)
            for tag in self.analyzers:
                for use, action in self._uses(tag):
                    self._report(number, tag, use, action)

    def _store(self, payloads: dict[str, tuple[bytes, bytes]], draw: random.Random) -> None:
        """Store intact states of each kind for each day, and a changed state for a day or as the total."""
        import sqlalchemy as sa

        from tidegauge.repository.store import schema as s

        def write(connection: sa.Connection) -> None:
            for tag, (changed, sound) in payloads.items():
                rows = {"tag": tag, "artifact": None}
                intact, bad = (
                    {**rows, **_payload_columns(content)} for content in (sound, changed)
                )
                if not self.analyzers[tag]:
                    mine = s.named_state.c.name == tag
                    connection.execute(sa.update(s.named_state).where(mine).values(bad))
                    continue
                named = sa.select(s.dataset.c.id).where(s.dataset.c.name == tag)
                dataset = connection.execute(named).scalar_one()
                own = sa.select(s.statistic.c.id).where(s.statistic.c.dataset_id == dataset)
                states = sa.update(s.state).where(s.state.c.statistic_id.in_(own))
                connection.execute(states.values(intact))
                folds = s.folded_state.c.statistic_id.in_(own)
                if draw.choice(PLACES) == "total":
                    folded = sa.update(s.folded_state).where(folds)
                    if connection.execute(folded.values(bad)).rowcount:
                        continue
                # Without a total, merges and roll-ups read the state of each day.
                connection.execute(sa.delete(s.folded_state).where(folds))
                connection.execute(sa.delete(s.rolled).where(s.rolled.c.dataset_id == dataset))
                days = connection.execute(
                    sa.select(s.state.c.partition_id).where(s.state.c.statistic_id.in_(own))
                ).scalars()
                day = draw.choice(sorted(set(days)))
                connection.execute(states.where(s.state.c.partition_id == day).values(bad))

        self.repository.database.write(write)

    def _check(self, number: int) -> None:
        """Check all states at once. A problem names the statistic or the name of its state."""
        import sqlalchemy as sa

        from tests.support.integrity import check
        from tidegauge.repository.store import schema as s

        for (
            tag
        ) in self.analyzers:  # if the process ends, the report names the check of the last kind
            print(json.dumps([number, tag, "check", "started", ""]), flush=True)
        with self.repository.database.read() as connection:
            query = sa.select(s.statistic.c.id, s.dataset.c.name).join(s.dataset)
            tags = {f"statistic {key}": tag for key, tag in connection.execute(query)}
        faulthandler.dump_traceback_later(MAX_STATE_SECONDS, exit=True)
        began = time.process_time()
        problems = check(self.repository.database, self.repository.artifacts)
        slow = time.process_time() - began > SLOW_SECONDS
        faulthandler.cancel_dump_traceback_later()
        refused = set()
        for problem in problems:
            if match := re.search(r"statistic \d+", problem):
                refused.add(tags[match[0]])
            elif match := re.search(r"the state named '(.*?)'", problem):
                refused.add(match[1])
        for tag in self.analyzers:
            outcome = "slow" if slow else "refused" if tag in refused else "answered"
            print(json.dumps([number, tag, "check", outcome, ""]), flush=True)

    def _uses(self, tag: str) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield the uses of the states of a kind: merges, roll-ups and queries of the dashboard."""
        import tidegauge as tg

        if not self.analyzers[tag]:
            yield "merge", lambda: self.repository.states(tag).load(tg.Size())
            return
        for analyzer in self.analyzers[tag]:
            yield "merge", lambda analyzer=analyzer: self.repository.merge(tag, analyzer)
            yield (
                "merge",
                lambda analyzer=analyzer: self.repository.merge(tag, analyzer, since=DAYS[0]),
            )
        yield "merge", lambda: self.repository.roll_up(tag, ["2d"])
        halves = {
            "baseline": {"since": DAYS[0], "until": DAYS[1]},
            "current": {"since": DAYS[1], "until": "2013-01-04"},
        }
        days = {
            "baseline": {"partition": f"ds={DAYS[0]}"},
            "current": {"partition": f"ds={DAYS[1]}"},
        }
        merged = {**halves, "summary": "merged"}
        questions = [("compare", merged), ("compare", days), ("columns", {})]
        for column in self.columns[tag]:
            questions += [("distribution", {"column": column, **sides}) for sides in (halves, days)]
            questions += [("drifts", {"column": column})]
            options = {"column": column, **days}
            for ask in ("data", "csv"):
                questions += [(ask, {"view": "distribution", "options": options})]
        questions += [("data", {"view": "compare", "options": halves})]
        for ask, about in questions:
            yield "page", lambda ask=ask, about=about: self._ask(ask, {"dataset": tag, **about})

    def _ask(self, ask: str, about: dict[str, Any]) -> None:
        """Run a query of the dashboard; raise the error that it returns."""
        answer, _ = self.backend.answer({"id": 0, "question": ask, "params": about}, None)
        if "error" in answer:
            raise _AnsweredError(answer["kind"], f"{ask}: {answer['error']}")

    def _report(self, number: int, tag: str, use: str, action: Callable[[], Any]) -> None:
        """Use a state and print the outcome."""
        from tidegauge.analyzers.core.errors import TidegaugeError

        print(json.dumps([number, tag, use, "started", ""]), flush=True)
        faulthandler.dump_traceback_later(MAX_STATE_SECONDS, exit=True)
        began, outcome, detail = time.process_time(), "answered", ""
        try:
            action()
        except TidegaugeError:
            outcome = "refused"
        except _AnsweredError as error:
            kind, message = error.args
            outcome = "refused" if kind in self.refusals else "raw error"
            detail = "" if outcome == "refused" else f"{kind}: {message}"[:200]
        except Exception as error:  # noqa: BLE001 - any other error is a finding
            outcome = "raw error"
            detail = f"{location_of(error)}: {type(error).__name__}: {error}"[:200]
        faulthandler.cancel_dump_traceback_later()
        if (seconds := time.process_time() - began) > SLOW_SECONDS:
            outcome, detail = "slow", f"{seconds:.0f} s in round {number}"
        print(json.dumps([number, tag, use, outcome, detail]), flush=True)


class _AnsweredError(Exception):
    """An error that the dashboard received: its kind and its message."""


def _payload_columns(payload: bytes) -> dict[str, Any]:
    """Return the columns of a payload with a valid checksum."""
    return {"payload": payload, "checksum": hashlib.sha256(payload).hexdigest()}


def _subclasses(error: type) -> Iterator[type]:
    for child in error.__subclasses__():
        yield child
        yield from _subclasses(child)


if __name__ == "__main__":
    main()
