"""Deferred validation: attach rules and fixes to a frame, run an action on it, then judge it.

Spark's `Observation` counts while the caller's own action runs, so no additional pass is needed. It
sees only the records that the action reads, so it is used only if it saw all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from copy import copy
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.core.frames import check_frame
from tidegauge.analyzers.core.requests import Sketch
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.analyzers.scan.capabilities import capabilities
from tidegauge.rules.definition import DQMDefinition
from tidegauge.rules.masks import OWN, mask
from tidegauge.rules.outcome.result import CheckResult
from tidegauge.rules.outcome.validation import ValidationTask
from tidegauge.rules.state import DQMState, RecordCounts, Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.rules.policies import DQMPolicy

TRACKED = 10_000
"""Capacity of the observation's sketch, in combinations of broken rules; exact up to three quarters of it."""
PATIENCE = 2.0
"""Seconds to wait for an observation after the action; Spark delivers it from a thread of its own."""


class Attached(ValidationTask):
    """A `DQM` attached to a frame.

    Attributes
    ----------
    data : DataFrame
        The frame after rules and fixes, lazy.

    Examples
    --------
    >>> import tidegauge as tg
    >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
    >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))
    >>> attached = ages.attach(riders)  # doctest: +SKIP
    >>> attached.data.count(), attached.check().passed, attached.state.total_rule_count  # doctest: +SKIP
    (1, True, 2)
    """

    def __init__(self, dqm: DQMDefinition, original: DataFrame) -> None:
        check_frame(original, streaming=True)
        self.dqm = dqm
        self.name = dqm.name
        self.original = original
        self._masked = mask(original, dqm.tasks)
        self._observation: Any = None
        self._waiting: Future[dict[str, Any]] | None = None
        self._result: CheckResult | None = None
        self._state: DQMState | None = None
        native = capabilities(original.sparkSession).sketches
        if dqm.needs_action and not original.isStreaming and "frequent" in native:
            self._observe()
        self.data = self._masked.kept

    def _observe(self) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        # Spark interprets observed expressions one by one: a count for each rule and fix costs many times
        # more than the rules. One sketch of the bit words is exact while it evicts nothing, and reports that.
        words = self._masked.words
        marked = " OR ".join(f"{word} != 0L" for word in words) or "false"
        joined = ", ".join(words) or "''"
        bits = f"CASE WHEN {marked} THEN concat_ws('.', {joined}) END"
        cells = [
            F.expr("count(1)").alias(f"{OWN}n"),
            F.expr(Sketch("frequent", bits, TRACKED).text).alias(f"{OWN}s"),
        ]
        self._observation = Observation()
        observed = self._masked.frame.observe(self._observation, *cells)
        self._masked = replace(self._masked, frame=observed)

    @property
    def needs_action(self) -> bool:
        """Return whether data must be read to be judged."""
        return self.dqm.needs_action

    def identity(self) -> Any:
        """Return the identity of the `DQM`."""
        return self.dqm.identity()

    @property
    def parser_policies(self) -> tuple[DQMPolicy, ...]:
        """The policies on records that a parser could not read."""
        return self.dqm.parser_policies

    def without_parser_policies(self) -> Attached:
        """Return a copy without the parser policies."""
        made = copy(self)
        made.dqm = self.dqm.without_parser_policies()
        return made

    @property
    def state(self) -> DQMState:
        """The counts of the whole frame, available after `check`.

        Raises
        ------
        RuleError
            If `check` was not called yet.
        """
        if self._state is None:
            msg = "the frame was not checked yet: call check()"
            raise RuleError(msg)
        return self._state

    def check(
        self, rows: int | None = None, *, kept: int | None = None, samples: int = 0
    ) -> CheckResult:
        """Judge the attached frame; later calls return the first verdict.

        Parameters
        ----------
        rows : int, optional
            Number of records of the original frame, if the caller knows it and has had all of them
            read. The observed counts are then used. Without it, or if nothing was observed, one
            pass over the original frame counts.
        kept : int, optional
            Number of records kept and written, if that is what the caller knows. If another number
            was observed, one pass over the original frame counts.
        samples : int
            Number of sample records for each rule in the verdict's log, taken in a pass over the
            original frame if records break rules; none by default, as observing needs no pass.

        Raises
        ------
        RuleError
            If another number of records than ``rows`` was observed or counted: the action did not
            read all of them. If the frame is a stream.
        """
        if self._result is None:
            if self.needs_action and self.original.isStreaming:
                msg = "a stream has no end at which to judge it; judge each batch: foreachBatch and dqm.apply"
                raise RuleError(msg)
            observed = None if rows is None and kept is None else self._observed()
            if observed is not None and rows is not None and observed.counts[0] != rows:
                msg = (
                    f"{observed.counts[0]} records were observed, not {rows}: the action did not read"
                    " all of them; check() without rows= counts in a pass of its own"
                )
                raise RuleError(msg)
            if observed is not None and kept is not None:
                left = self.dqm.tasks.of(observed)["kept", ""]
                observed = observed if left == kept else None
            whole = (
                self.dqm.tally(self.original)
                if observed is None
                else Tally(observed, self._masked.failures)
            )
            masked = mask(self.original, self.dqm.tasks, whole.failures)
            state = self.dqm.final_state(whole, masked, samples)
            if rows is not None and self.needs_action and state.records != rows:
                msg = f"the frame holds {state.records} records, not {rows}"
                raise RuleError(msg)
            self._state = state
            self._result = self.dqm.judge(state, masked.kept)
        return self._result

    def validate(self, data: DataFrame) -> CheckResult:
        """Judge the attached frame."""
        return self.check()

    def validate_written(self, data: DataFrame) -> CheckResult:
        """Judge by the counts observed while the kept records were written."""
        if self._result is None and self.needs_action:
            return self.check(kept=data.count())
        return self.check()

    def _observed(self) -> RecordCounts | None:
        """Return the observed counts, or None; waits for delivery a little, never for an action."""
        if self._observation is None:
            return None
        if self._waiting is None:
            waiting: Future[dict[str, Any]] = Future()
            self._waiting = waiting

            def wait() -> None:
                try:
                    waiting.set_result(self._observation.get)
                except Exception as error:  # noqa: BLE001 - passed on by the future
                    waiting.set_exception(error)

            Thread(target=wait, name="tidegauge-observation", daemon=True).start()
        try:
            found = self._waiting.result(PATIENCE)
        except NotYetError:
            return None
        except Exception:  # noqa: BLE001 - the caller's action failed and raised there
            return None
        return self._counted(found) if found else None

    def _counted(self, found: Mapping[str, Any]) -> RecordCounts | None:
        """Return the observed counts as a state; None if the sketch evicted anything."""
        import numpy as np

        sketch = FrequentItemsState.from_sketches([found[f"{OWN}s"]])
        marked = sketch.top()
        records = int(found[f"{OWN}n"])
        clean = records - sum(value.estimate for value in marked.values())
        exact = all(value.lower == value.upper for value in marked.values())
        if not exact or clean != records - sketch.count:
            return None
        width = self.dqm.tasks.words
        rows = [[int(word) for word in bits.split(".")] for bits in marked]
        words = np.array([*rows, [0] * width], dtype=np.int64).reshape(len(rows) + 1, width)
        counts = np.array([*(value.estimate for value in marked.values()), clean], dtype=np.int64)
        return self.dqm.tasks.fold(list(words.T), counts)

    def __repr__(self) -> str:
        """Return the `DQM` and the verdict, if there is one."""
        found = "not checked yet" if self._result is None else str(self._result)
        return f"Attached({self.dqm!r}, {found})"
