"""Two steps: rules and fixes are attached to a frame, the caller acts on it, then it is judged.

Spark's `Observation` counts while the caller's own action runs, so that no further one is needed. It sees
only the records that the action pulls, so it is believed only if it saw as many as there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from copy import copy
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

from analyzers.errors import RuleError
from analyzers.rules.masks import OWN, mask
from analyzers.rules.result import CheckResult
from analyzers.rules.state import DQMState, RecordCounts
from analyzers.rules.validation import ValidationTask
from analyzers.top_values import FrequentItemsState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.rules.dqm import DQM
    from analyzers.rules.policies import DQMPolicy

TRACKED = 10_000
"""Combinations of broken rules that an observation tells apart; of three quarters as many it is exact."""
PATIENCE = 2.0
"""Seconds for an observation to come in after the action; Spark tells it from a thread of its own."""


class Attached(ValidationTask):
    """A `DQM` attached to a frame.

    Attributes
    ----------
    data : DataFrame
        The frame after rules and fixes. Nothing was read for it.
    """

    def __init__(self, dqm: DQM, original: DataFrame) -> None:
        self.dqm = dqm
        self.name = dqm.name
        self.original = original
        self._masked = mask(original, dqm.tasks)
        self._observation: Any = None
        self._waiting: Future[dict[str, Any]] | None = None
        self._result: CheckResult | None = None
        self._state: DQMState | None = None
        if dqm.needs_action and not original.isStreaming:
            self._observe()
        self.data = self._masked.kept

    def _observe(self) -> None:
        from pyspark.sql import Observation  # noqa: PLC0415
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        # Spark interprets what it observes, expression by expression: a count for each rule and fix costs
        # many times what the rules do. One sketch of the bits is exact while it forgets nothing, and says so.
        words = self._masked.words
        marked = " OR ".join(f"{word} != 0L" for word in words) or "false"
        joined = ", ".join(words) or "''"
        bits = f"CASE WHEN {marked} THEN concat_ws('.', {joined}) END"
        cells = [
            F.expr("count(1)").alias(f"{OWN}n"),
            F.expr(f"approx_top_k_accumulate({bits}, {TRACKED}).sketch").alias(f"{OWN}s"),
        ]
        self._observation = Observation()
        observed = self._masked.frame.observe(self._observation, *cells)
        self._masked = replace(self._masked, frame=observed)

    @property
    def needs_action(self) -> bool:
        """Whether data must be read to be judged."""
        return self.dqm.needs_action

    def identity(self) -> Any:
        """Return what the `DQM` is."""
        return self.dqm.identity()

    @property
    def parser_policies(self) -> tuple[DQMPolicy, ...]:
        """The policies of what a parser could not read."""
        return self.dqm.parser_policies

    def without_parser_policies(self) -> Attached:
        """Return the same attachment without these."""
        made = copy(self)
        made.dqm = self.dqm.without_parser_policies()
        return made

    @property
    def state(self) -> DQMState:
        """The counts of the whole frame, once it was checked.

        Raises
        ------
        RuleError
            Before that.
        """
        if self._state is None:
            msg = "the frame was not checked yet: call check()"
            raise RuleError(msg)
        return self._state

    def check(self, rows: int | None = None, *, kept: int | None = None) -> CheckResult:
        """Judge what was attached; the first answer stays.

        Parameters
        ----------
        rows : int, optional
            How many records the frame held that rules were attached to, where the caller knows it and has
            had all of them read. What was observed meanwhile is used then. Without it, or where nothing was
            observed, one pass over the original frame counts.
        kept : int, optional
            How many records were left and written, where that is what the caller knows. If another number
            was observed, one pass over the original frame counts.

        Raises
        ------
        RuleError
            If another number of records was observed: the action did not read all of them. If the frame is
            a stream.
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
            if observed is None:
                state = self.dqm.count(self.original)
            else:
                state = self.dqm.tasks.state(observed, self._masked.failures)
            state.snapshot()
            if rows is not None and self.needs_action and state.records != rows:
                msg = f"the frame holds {state.records} records, not {rows}"
                raise RuleError(msg)
            self._state = state
            self._result = self.dqm.judge(
                state, mask(self.original, self.dqm.tasks, state.errors).kept
            )
        return self._result

    def validate(self, data: DataFrame) -> CheckResult:  # noqa: ARG002 - it knows its own
        """Judge the frame that rules were attached to."""
        return self.check()

    def validate_written(self, data: DataFrame) -> CheckResult:
        """Judge by what was observed while the records that are left were written."""
        if self._result is None and self.needs_action:
            return self.check(kept=data.count())
        return self.check()

    def _observed(self) -> RecordCounts | None:
        """Return what was observed, or None if nothing was; waits a little, never for an action."""
        if self._observation is None:
            return None
        if self._waiting is None:
            waiting: Future[dict[str, Any]] = Future()
            self._waiting = waiting

            def wait() -> None:
                try:
                    waiting.set_result(self._observation.get)
                except Exception as error:  # noqa: BLE001 - it is told by the future
                    waiting.set_exception(error)

            Thread(target=wait, name="tidegauge-observation", daemon=True).start()
        try:
            found = self._waiting.result(PATIENCE)
        except NotYetError:
            return None
        except Exception:  # noqa: BLE001 - the caller's action failed, and told so itself
            return None
        return self._counted(found) if found else None

    def _counted(self, found: Mapping[str, Any]) -> RecordCounts | None:
        """Return the state of what was observed; None if the sketch had to forget something."""
        import numpy as np  # noqa: PLC0415

        sketch = FrequentItemsState.of(found[f"{OWN}s"])
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
        """Return the `DQM`, and the verdict if there is one."""
        found = "not checked yet" if self._result is None else str(self._result)
        return f"Attached({self.dqm!r}, {found})"
