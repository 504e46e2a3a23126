"""Result frames: pandas DataFrames that notebooks show as compact tables."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tidegauge.analyzers.core.rendering import Rendered


class ResultFrame(Rendered, pd.DataFrame):
    """A query's result: a `pandas.DataFrame` in all but how a notebook shows it.

    Whatever is computed of it (a selection, a copy, a group) is a plain frame, which pandas shows as ever.
    """

    renderer = "tidegauge.display.frames:render_frame"

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame
