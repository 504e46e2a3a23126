"""Pictures of the dashboard in the variant that fits: for a narrow page, and for the dark theme."""

from __future__ import annotations

import re
from pathlib import Path

NARROW = "(max-width: 44.9375em)"
"""Width at which the theme puts its menus away."""
_IMAGE = re.compile(r'<img alt="([^"]*)" src="((?:\.\./)*(screens/[\w-]+))\.png" ?/?>')


def with_variants(html: str, docs: Path) -> str:
    """Return a page on which each picture with variants is shown by width and theme.

    ``home.png`` has the variants ``home-narrow.png``, ``home-dark.png`` and ``home-narrow-dark.png``;
    those that there are not are left out. Pictures that are not shown are not loaded.

    Parameters
    ----------
    html : str
    docs : Path
        The folder in which ``screens`` is.
    """

    def shown(image: re.Match[str]) -> str:
        text, path, name = image.groups()
        there = {
            suffix
            for suffix in ("-narrow", "-dark", "-narrow-dark")
            if (docs / f"{name}{suffix}.png").exists()
        }
        if not there:
            return image[0]
        light = _picture(text, path, "", narrow="-narrow" in there)
        if "-dark" not in there:
            return light
        dark = _picture(text, path, "-dark", narrow="-narrow-dark" in there)
        return f'<span class="when-light">{light}</span><span class="when-dark">{dark}</span>'

    return _IMAGE.sub(shown, html)


def _picture(text: str, path: str, theme: str, *, narrow: bool) -> str:
    source = f'<source media="{NARROW}" srcset="{path}-narrow{theme}.png">' * narrow
    image = f'<img alt="{text}" src="{path}{theme}.png" loading="lazy">'
    return f"<picture>{source}{image}</picture>"
