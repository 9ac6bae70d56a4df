"""Figures of retrieval with bootstrap intervals: those of `saccade-lab eval retrieval`, by the same code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._arrays import as_numpy, float_rows
from ._checks import number, string, whole
from ._errors import InvalidInput
from ._multi import MultiEmbeddings

__all__ = ["Direction", "Figure", "Retrieval", "retrieval", "retrieval_from_scores"]

Ties = Literal["pessimistic", "optimistic", "mean", "index", "trec"]


class Figure(NamedTuple):
    """A figure with its bootstrap intervals; None where there is none."""

    value: float | None
    low: float | None
    """Percentile interval."""
    high: float | None
    bca_low: float | None
    """Bias-corrected and accelerated interval."""
    bca_high: float | None
    wilson_high: float | None
    """Upper end of Wilson's interval for a share that is 0 in every image."""
    wilson_low: float | None
    """Lower end of Wilson's interval for a share that is 1 in every image."""

    def __format__(self, spec: str) -> str:
        if self.value is None:
            return "-"
        spec = spec or ".3f"
        if self.low is None or self.high is None:
            return format(self.value, spec)
        for end in (self.wilson_high, self.wilson_low):
            if end is not None:
                return f"{self.value:{spec}} [Wilson {end:{spec}}]"
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


@dataclass(frozen=True)
class Direction(Mapping):
    """Figures of one direction by name: r1, r5, r10, recall1, recall5, recall10, mrr, ndcg10, map, mean_rank,
    median_rank.

    r@k is the share of queries with a right answer among the first k; recall@k the share of a query's right answers
    among the first k, averaged. Both are None for a gallery of fewer than k. map is the mean average precision.
    """

    figures: dict[str, Figure]
    chance: dict[str, float | None]
    """The same of a ranking drawn at random."""
    gallery: int
    """Answers that are ranked."""
    queries: int
    """Queries with a right answer, over which figures are averaged."""
    without_answer: int
    tied: int
    """Queries with a wrong answer whose score is exactly a right one's."""
    several_right: int
    """Queries with more than one right answer."""
    ranks: NDArray[np.float64]
    """Of each query's first right answer, from 1; NaN without one."""

    def __getitem__(self, name: str) -> Figure:
        return self.figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)


@dataclass(frozen=True)
class Retrieval:
    """What `retrieval` returns. Printing it shows a table."""

    text_to_image: Direction
    image_to_text: Direction

    def __str__(self) -> str:
        lines = [f"{'':12} {'text to image':24} image to text"]
        for name in self.text_to_image:
            lines.append(f"{name:12} {self.text_to_image[name]:.3f}".ljust(38) + f"{self.image_to_text[name]:.3f}")
        return "\n".join(lines)


def retrieval(
    images: Any,
    texts: Any,
    relevance: Any = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
    ties: Ties = "pessimistic",
    image_ids: Sequence[str] | None = None,
    text_ids: Sequence[str] | None = None,
    threads: int = 0,
) -> Retrieval:
    """Evaluate retrieval in both directions.

    Args:
        images: float32 [n, dim], or MultiEmbeddings, which are scored by MaxSim.
        texts: float32 [m, dim], or MultiEmbeddings. The score of a pair is the dot product: the cosine, if rows have
            length 1.
        relevance: what belongs together. None: text i and image i. An integer array [m]: the image of each text, -1 for
            none. An integer array [pairs, 2] of (text, image). A boolean array [m, n].
        resamples: of the bootstrap over images, for the intervals; 0 gives none.
        seed: of the bootstrap. Two models on the same images and seed are resampled alike.
        confidence: of the intervals, between 0 and 1.
        ties: which of equal scores come first: the wrong answers ("pessimistic"), the right ones ("optimistic"), halfway
            ("mean"), by number ("index"), or by id as trec_eval and MTEB have them ("trec", which needs both ids).
        image_ids, text_ids: one for each, for ties="trec".
        threads: 0 uses all processors.

    Raises:
        InvalidInput: a wrong type, shape or option.
        Mismatch: images and texts have different widths.
        BadData: a score is not a number, or relevance names what is not there.

    Memory: blocks of scores, never the whole matrix. Ctrl-C ends it within a second.
    """
    options = _options(resamples, seed, confidence, ties, image_ids, text_ids, threads)
    if isinstance(images, MultiEmbeddings) != isinstance(texts, MultiEmbeddings):
        raise InvalidInput("images and texts: one has several vectors each, the other has one")
    if isinstance(images, MultiEmbeddings):
        known = _relevance(relevance, len(texts), len(images))
        found = _core.retrieval_of_vectors(texts.rows, texts.begin, images.rows, images.begin, known, options)
    else:
        image_rows, text_rows = (_rows(values, what) for values, what in ((images, "images"), (texts, "texts")))
        known = _relevance(relevance, len(text_rows), len(image_rows))
        found = _core.retrieval_of_embeddings(text_rows, image_rows, known, options)
    return _made(found, known)


def retrieval_from_scores(
    scores: Any,
    relevance: Any = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
    ties: Ties = "pessimistic",
    image_ids: Sequence[str] | None = None,
    text_ids: Sequence[str] | None = None,
    threads: int = 0,
) -> Retrieval:
    """Evaluate scores computed elsewhere: float32 [texts, images], higher is closer. All else as for `retrieval`."""
    options = _options(resamples, seed, confidence, ties, image_ids, text_ids, threads)
    checked = np.ascontiguousarray(_rows(scores, "scores"))
    known = _relevance(relevance, *checked.shape)
    return _made(_core.retrieval_of_scores(checked, known, options), known)


def _rows(values: Any, what: str) -> np.ndarray:
    rows, single = float_rows(values, what)
    if single:
        raise InvalidInput(f"{what}: shape {rows.shape[1:]}, expected two axes")
    return rows


def _relevance(relevance: Any, texts: int, images: int) -> Any:
    if relevance is None:
        if texts != images:
            raise InvalidInput(f"relevance: {texts} texts and {images} images, so it must say what belongs together")
        relevance = np.arange(texts)
    given = relevance if isinstance(relevance, np.ndarray) else None
    if given is None and hasattr(relevance, "__dlpack__"):
        given = as_numpy(relevance, "relevance")
    if given is None:
        given = np.asarray(relevance)
        if given.size == 0:
            given = given.reshape(0, 2).astype(np.int64) if texts else given.astype(np.int64)
    if given.dtype == np.bool_:
        if given.shape != (texts, images):
            raise InvalidInput(f"relevance: boolean {given.shape}, expected {(texts, images)}")
        given = np.argwhere(given)
    if not np.issubdtype(given.dtype, np.integer):
        raise InvalidInput(f"relevance: {given.dtype}, expected integers or booleans")
    numbers = np.ascontiguousarray(given, dtype=np.int64)
    if numbers.ndim == 1:
        if len(numbers) != texts:
            raise InvalidInput(f"relevance: images of {len(numbers)} texts, there are {texts}")
        return _core.relevance_of_images(numbers, images)
    if numbers.ndim == 2 and numbers.shape[1] == 2:
        return _core.relevance_of_pairs(numbers, texts, images)
    raise InvalidInput(f"relevance: shape {numbers.shape}, expected [texts] or [pairs, 2]")


def _options(
    resamples: int,
    seed: int,
    confidence: float,
    ties: str,
    image_ids: Sequence[str] | None,
    text_ids: Sequence[str] | None,
    threads: int,
) -> dict[str, Any]:
    resamples = whole(resamples, "resamples")
    if resamples < 0:
        raise InvalidInput(f"resamples is {resamples}, expected 0 or more")
    seed = whole(seed, "seed", bits=65)
    if seed < 0:
        raise InvalidInput(f"seed is {seed}, expected 0 or more")
    confidence = number(confidence, "confidence")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence is {confidence}, expected a number between 0 and 1")
    threads = whole(threads, "threads")
    if not 0 <= threads <= 1024:
        raise InvalidInput(f"{threads} threads, expected 0 to 1024")
    return {
        "resamples": resamples,
        "seed": seed,
        "confidence": confidence,
        "ties": string(ties, "ties"),
        "image_ids": None if image_ids is None else [str(id) for id in image_ids],
        "text_ids": None if text_ids is None else [str(id) for id in text_ids],
        "threads": threads,
    }


def _made(found: Any, relevance: Any) -> Retrieval:
    directions = []
    for direction, to_image in zip(found, (True, False)):
        figures = {name: Figure(*values) for name, values in direction.pop("figures").items()}
        chance = _core.chance(relevance, to_image)
        # Any model finds everything among fewer than k.
        for depth in (1, 5, 10):
            if depth > direction["gallery"]:
                for name in (f"r{depth}", f"recall{depth}"):
                    figures[name], chance[name] = Figure(*[None] * 7), None
        directions.append(Direction(figures=figures, chance=chance, **direction))
    return Retrieval(*directions)
