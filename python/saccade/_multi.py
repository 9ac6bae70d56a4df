"""Late interaction: several vectors for each image or text, scored by MaxSim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._arrays import float_rows
from ._errors import InvalidInput


class MultiEmbeddings(Sequence):
    """Vectors of several items, one item after the other.

    `rows` is float32 [all vectors, dim]; item `i` has rows `begin[i]` to `begin[i + 1] - 1`, and `self[i]` is a view of
    them, float32 [vectors of the item, dim].
    """

    def __init__(self, rows: Any, begin: Any) -> None:
        """Raises InvalidInput if `begin` is not ascending from 0 to the number of rows."""
        self.rows: NDArray[np.float32] = float_rows(rows, "rows")[0]
        self.begin: NDArray[np.int64] = np.ascontiguousarray(begin, dtype=np.int64)
        edges = self.begin
        if (
            edges.ndim != 1
            or len(edges) == 0
            or edges[0] != 0
            or edges[-1] != len(self.rows)
            or (np.diff(edges) < 0).any()
        ):
            raise InvalidInput(f"begin: expected ascending row numbers from 0 to {len(self.rows)}")

    @classmethod
    def of(cls, items: Sequence[Any]) -> MultiEmbeddings:
        """Make one of a list of float32 arrays [vectors, dim]; copies them."""
        arrays = [float_rows(item, f"item {i}")[0] for i, item in enumerate(items)]
        if not arrays:
            return cls(np.empty((0, 0), np.float32), [0])
        return cls(np.concatenate(arrays), np.cumsum([0] + [len(array) for array in arrays]))

    def __len__(self) -> int:
        return len(self.begin) - 1

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, slice):
            return [self[i] for i in range(*item.indices(len(self)))]
        at = range(len(self))[item]
        return self.rows[self.begin[at] : self.begin[at + 1]]

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"MultiEmbeddings({len(self)} items, {len(self.rows)} vectors of {self.rows.shape[1]})"


def maxsim(queries: Any, items: Any) -> Any:
    """Return MaxSim scores: the sum over a query's vectors of the largest dot product with one of the item's.

    Args:
        queries, items: MultiEmbeddings, or float32 [vectors, dim] for one query or item.

    Returns:
        float32 [queries, items]; without the axis of an argument that is one array; a float for two arrays. An item
        without vectors scores -inf.

    Raises:
        Mismatch: the widths differ.

    Sums in double. Cost: plain loops over all pairs of vectors.
    """

    def as_multi(value: Any, what: str) -> tuple[MultiEmbeddings, bool]:
        if isinstance(value, MultiEmbeddings):
            return value, False
        rows, single = float_rows(value, what)
        if single:
            raise InvalidInput(f"{what}: shape {rows.shape[1:]}, expected [vectors, dim]")
        return MultiEmbeddings(rows, [0, len(rows)]), True

    asked, one_query = as_multi(queries, "queries")
    scored, one_item = as_multi(items, "items")
    scores = _core.max_sim(asked.rows, asked.begin, scored.rows, scored.begin)
    if one_query and one_item:
        return float(scores[0, 0])
    if one_query:
        return scores[0]
    return scores[:, 0] if one_item else scores
