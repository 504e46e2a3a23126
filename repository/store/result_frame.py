"""Result frames: pandas DataFrames that notebooks and terminals show as compact tables."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tidegauge.analyzers.core.deferred import resolve
from tidegauge.analyzers.core.rendering import Rendered


class ResultFrame(Rendered, pd.DataFrame):
    """A query's result: a `pandas.DataFrame` in all but how it is shown.

    Whatever is computed of it (a selection, a copy, a group) is a plain frame, which pandas shows as ever.
    """

    renderer = "tidegauge.display.frames:render_frame"

    def __repr__(self) -> str:
        """Return the result as text, with the columns that matter most at the left."""
        text: str = resolve("tidegauge.display.frames:frame_text")(self)
        return text

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame
