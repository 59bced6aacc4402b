"""Arrays from what a caller gives, none of whose values he marked as missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def check_unmasked(value: Any, name: str) -> None:
    """Raise ``ValueError`` if a value of a masked array, or of a list of them, is masked; NumPy drops the mask.

    >>> check_unmasked(np.ma.masked_equal([3, -1], -1), "y")
    Traceback (most recent call last):
    ValueError: y is masked in row 1; leave such rows out, or fill them (numpy.ma.filled)
    """
    if isinstance(value, np.ma.MaskedArray):
        masked = np.argwhere(np.ma.getmaskarray(value))[:, :1].ravel().tolist()
    elif isinstance(value, (list, tuple)):
        masked = [at for at, row in enumerate(value) if isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row)]
    else:
        return
    if len(masked):
        raise ValueError(f"{name} is masked in row {masked[0]}; leave such rows out, or fill them (numpy.ma.filled)")


def as_array(value: Any, name: str) -> npt.NDArray[Any]:
    """Return ``np.asarray(value)``; raises ``ValueError`` if a value is masked."""
    check_unmasked(value, name)
    return np.asarray(value)
