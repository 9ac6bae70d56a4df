"""Exact nearest neighbours over a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._arrays import float_rows, mask_of
from ._checks import string, whole
from ._errors import InvalidInput
from ._options import Metric


def search(
    rows: Any,
    queries: Any,
    k: int = 10,
    *,
    metric: Metric = "inner_product",
    allowed: Any | None = None,
    threads: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Find the `k` rows with the highest score for each query, exactly.

    Args:
        rows: float32 [n, dim]: a NumPy array, a memory map, or a CPU tensor. It is read in place, not copied. Each row
            must be contiguous; rows may lie apart.
        queries: float32 [m, dim], or one query [dim].
        k: number of rows wanted, at least 1.
        metric: "inner_product" is the cosine if all rows have length 1. "cosine" takes rows of any length and copies
            both matrices.
        allowed: boolean [n]; rows with False are left out.
        threads: 0 uses all processors of the process; at most 1,024.

    Returns:
        `(indices, scores)`: int64 and float32, both [m, k], best first; [k] for one query. Equal scores are ordered by
        row number. If fewer than `k` rows are allowed, the rest has index -1 and score -inf. Rows whose score is NaN are
        never returned. The result has the same bits for any number of threads.

    Raises:
        InvalidInput: a wrong type, shape or `k`.
        Mismatch: the widths differ, or `allowed` does not fit.

    Other Python threads run meanwhile. Ctrl-C ends the search.
    """
    checked_rows, single_row = float_rows(rows, "rows")
    if single_row:
        raise InvalidInput(f"rows: shape {checked_rows.shape[1:]}, expected [n, dim]")
    if isinstance(queries, (list, tuple)) and not queries:
        queries = np.empty((0, checked_rows.shape[1]), np.float32)
    checked, single = float_rows(queries, "queries")
    mask = mask_of(allowed)
    threads = whole(threads, "threads", bits=32)
    indices, scores = _core.top_k(checked, checked_rows, whole(k, "k"), string(metric, "metric"), mask, threads)
    return (indices[0], scores[0]) if single else (indices, scores)
