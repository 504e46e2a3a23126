"""Types and limits that the numerical routines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CAP = 300.0
"""The highest score: -log10 of the smallest p-value worth telling apart."""
