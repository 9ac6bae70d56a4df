"""Match probabilities for the nearest rows of a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core
from ._arrays import float_rows, mask_of
from ._checks import number, several, string, texts_of, whole
from ._encoder import Encoder
from ._errors import InvalidInput
from ._options import QueryKind


@dataclass(frozen=True)
class CalibratedHit:
    """A row found, with the probability that it is right."""

    row: int
    score: float
    probability: float | None
    """0 to 1; None if the calibration gives none."""
    expected_wrong: float | None
    """Number of wrong rows expected at this score or above for a query without a right row; None if not measured."""


@dataclass(frozen=True)
class CalibratedAnswer:
    """What `Calibration.search` found."""

    hits: list[CalibratedHit]
    """Best first."""
    answered: float | None
    """Probability that any row is right, if half of all queries have a right row."""
    p_value: float | None
    """Share of queries without a right row whose best hit stands out at least as much."""


class Calibration:
    """A calibration for one kind of query, one model and rows like those that it was learned on.

    A cosine alone says little: its scale differs between models and between queries. A calibration is learned from queries
    whose right rows are known. It judges a hit by its score, by how far it stands out among the query's best scores, and by
    how near its row is to everything. May be used from several threads.
    """

    _core: _core.Calibration

    def __init__(self) -> None:
        raise TypeError("Calibration.learn(), Calibration.learn_from_captions() and Engine.calibration() make them")

    @classmethod
    def _of(cls, core: _core.Calibration) -> Calibration:
        calibration = object.__new__(cls)
        calibration._core = core
        return calibration

    @classmethod
    def learn(
        cls,
        rows: Any,
        queries: Any,
        right: Sequence[Iterable[int]],
        *,
        texts: Iterable[str] | None = None,
        own_rows: Iterable[int] = (),
        kind: QueryKind = "text",
        logit_scale: float = 100,
        allowed: Any | None = None,
        threads: int = 0,
    ) -> Calibration:
        """Learn from queries with known right rows.

        Args:
            rows: float32 [n, dim], each of length 1.
            queries: float32 [m, dim], each of length 1.
            right: for each query its right rows, ascending; empty if they are not known.
            texts: of text queries, one for each.
            own_rows: the row of each query itself, which is left out, or -1.
            logit_scale: `Encoder.logit_scale`.
            allowed: boolean [n]; rows with False are left out.

        Too little data is no error: the result then gives no probabilities, and `reason` says why. It takes 65 rows, and 60
        texts or 200 images with right rows.
        """
        checked_rows, asked = float_rows(rows, "rows")[0], float_rows(queries, "queries")[0]
        known = [[whole(row, "right") for row in several(answers, "right", "a list of rows")] for answers in right]
        listed = [] if texts is None else texts_of(texts)[0]
        own = [whole(row, "own_rows") for row in own_rows]
        mask = mask_of(allowed)
        return cls._of(
            _core.learn(
                checked_rows,
                asked,
                known,
                listed,
                own,
                string(kind, "kind"),
                number(logit_scale, "logit_scale"),
                mask,
                whole(threads, "threads", bits=32),
            )
        )

    @classmethod
    def learn_from_captions(
        cls, encoder: Encoder, rows: Any, captions: Iterable[str], *, allowed: Any | None = None, threads: int = 0
    ) -> Calibration:
        """Learn for text queries from captions, one for each row (empty if it has none). `encoder` must be the rows' own."""
        checked = float_rows(rows, "rows")[0]
        listed = texts_of(captions, "captions")[0]
        return cls._of(
            _core.learn_from_captions(
                encoder._core, checked, listed, mask_of(allowed), whole(threads, "threads", bits=32)
            )
        )

    @property
    def gives_probabilities(self) -> bool:
        """True if, on held-out queries, probabilities were better than a constant."""
        return self._core.gives_probabilities()

    @property
    def reason(self) -> str:
        """Reason for no probabilities; empty if there are any."""
        return self._core.reason()

    @property
    def known_queries(self) -> int:
        """Number of queries with known right rows that it was learned from."""
        return self._core.known_queries()

    def search(
        self, rows: Any, query: Any, k: int = 10, *, text: str = "", allowed: Any | None = None, threads: int = 0
    ) -> CalibratedAnswer:
        """Find the `k` nearest rows of one query, as `saccade.search` does with inner products, and judge each.

        Args:
            rows: float32 [n, dim], each of length 1.
            query: float32 [dim], of length 1.
            text: the query's text, whose words are counted; empty for an image.
        """
        asked, single = float_rows(query, "query")
        if not single:
            raise InvalidInput(f"query: shape {asked.shape}, expected [dim]")
        checked = float_rows(rows, "rows")[0]
        hits, answered, p_value = self._core.top_k(
            asked, checked, whole(k, "k"), string(text, "text"), mask_of(allowed), whole(threads, "threads", bits=32)
        )
        return CalibratedAnswer([CalibratedHit(*hit) for hit in hits], answered, p_value)
