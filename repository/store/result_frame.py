"""Result frames: pandas DataFrames that notebooks and terminals show as compact tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from tidegauge.analyzers.core.registry import Rendered, resolve


class ResultFrame(Rendered, pd.DataFrame):
    """A query's result: a `pandas.DataFrame` in all but how it is shown.

    What keeps its columns, such as ``head``, ``frame[mask]`` or ``sort_values``, is shown alike. All else
    that is computed of it (chosen columns, groups, joins) is a plain frame, and so is shown what has an index
    that says more than a number.
    """

    renderer = "tidegauge.display.frames:render_frame"

    def __repr__(self) -> str:
        """Return the result as text, with the columns that matter most at the left."""
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
        """Return what pandas computed of this frame: a result if it has the same columns."""
        frame = pd.DataFrame(*data, **options)
        return ResultFrame(frame) if frame.columns.equals(self.columns) else frame
