"""Checks of arrays before they are lent to the library."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._errors import InvalidInput


def as_numpy(values: Any, what: str) -> np.ndarray:
    """View an array of any framework as NumPy's, without a copy; lists of numbers become float32."""
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "__dlpack__"):
        if getattr(values, "requires_grad", False):
            values = values.detach()
        try:
            return np.from_dlpack(values)
        except (BufferError, RuntimeError, TypeError) as error:
            raise InvalidInput(f"{what}: cannot be read in place ({error}); move it to the CPU first") from error
    try:
        return np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what}: a {type(values).__name__}, expected a float32 array") from error


def float_rows(values: Any, what: str) -> tuple[np.ndarray, bool]:
    """Return float32 rows [n, dim] that the library can read in place, and whether one vector [dim] was given."""
    array = as_numpy(values, what)
    if array.dtype != np.float32:
        raise InvalidInput(f"{what}: {array.dtype}, expected float32 (.astype(numpy.float32) converts)")
    single = array.ndim == 1
    if single:
        array = array.reshape(1, -1)
    if array.ndim != 2:
        raise InvalidInput(f"{what}: shape {array.shape}, expected [n, dim]")
    rows, columns = array.shape
    if rows > 0 and columns > 0:
        across, along = array.strides
        whole = (columns == 1 or along == 4) and (rows == 1 or (across >= 4 * columns and across % 4 == 0))
        if not whole or not array.flags.aligned:
            raise InvalidInput(f"{what}: rows are not contiguous (numpy.ascontiguousarray copies)")
    return array, single


def mask_of(allowed: Any | None) -> np.ndarray | None:
    """Return one byte for each row, or None. Lists and columns of tables are copied."""
    if allowed is None:
        return None
    mask = as_numpy(allowed, "allowed") if hasattr(allowed, "__dlpack__") else np.asarray(allowed)
    if mask.ndim != 1 or mask.dtype not in (np.bool_, np.uint8):
        raise InvalidInput(f"allowed: {mask.dtype} {mask.shape}, expected one boolean for each row")
    return np.ascontiguousarray(mask).view(np.uint8)
