"""Result frames: pandas DataFrames that notebooks and terminals show as compact tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from tidegauge.analyzers.core.registry import Rendered, resolve


class ResultFrame(Rendered, pd.DataFrame):
    """A query's result: a `pandas.DataFrame` with a compact display.

    Operations that keep its columns, such as ``head``, ``frame[mask]`` or ``sort_values``, return a
    result frame. All others (chosen columns, groups, joins) return a plain frame. A frame with an
    index other than row numbers is displayed as pandas does.
    """

    renderer = "tidegauge.display.frames:render_frame"

    def __repr__(self) -> str:
        """Return the result as text, with the most important columns at the left."""
        if not self._is_numbered():
            return super().__repr__()
        text: str = resolve("tidegauge.display.frames:frame_text")(self)
        return text

    def _repr_html_(self) -> str:
        plain: Any = pd.DataFrame(self)
        html: str = super()._repr_html_() if self._is_numbered() else plain._repr_html_()
        return html

    def _is_numbered(self) -> bool:
        index = self.index
        return index.nlevels == 1 and index.name is None and index.dtype.kind == "i"

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return self._derived

    def _derived(self, *data: Any, **options: Any) -> pd.DataFrame:
        """Return the frame that pandas computed from this one: a result frame if it has the same columns."""
        frame = pd.DataFrame(*data, **options)
        return ResultFrame(frame) if frame.columns.equals(self.columns) else frame
