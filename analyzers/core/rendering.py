"""Rendering hook: results show themselves in notebooks by a function that they name."""

from __future__ import annotations

from typing import ClassVar

from tidegauge.analyzers.core.deferred import resolve


class Rendered:
    """Base of results that notebooks show as HTML.

    The HTML is written by `tidegauge.display`, which is imported when something is shown.

    Class attributes
    ----------------
    renderer : str
        A function from the object to HTML, as ``module:function``.
    """

    __slots__ = ()
    renderer: ClassVar[str]

    def _repr_html_(self) -> str:
        html: str = resolve(self.renderer)(self)
        return html
