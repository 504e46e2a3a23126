"""Types and limits that the numerical routines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CAP = 300.0
"""The highest score: -log10 of the smallest p-value worth telling apart."""


def zero_if_nan(values: Floats) -> Floats:
    """Return the values with 0 for NaN; `numpy.nan_to_num` takes four times as long on short arrays.

    Examples
    --------
    >>> zero_if_nan(np.array([1.0, np.nan, np.inf]))
    array([ 1.,  0., inf])
    """
    found: Floats = np.where(np.isnan(values), 0.0, values)
    return found
