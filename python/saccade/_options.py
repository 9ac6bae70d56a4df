"""Options of calls: their names, types and values. The defaults are those of the library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ._checks import flag, number, path_of, several, string, whole
from ._errors import InvalidInput

if TYPE_CHECKING:
    from ._encoder import Encoder

Compose = Literal["sum", "slerp", "direction"]
"""Methods to combine an image and a text into one query."""
MapMethod = Literal["legrad", "chefer"]
"""Methods to compute where in an image its score comes from."""
Match = Literal["strong match", "likely", "possible", "weak match", "unknown"]
"""Strengths of a match, by its probability: from 0.8, from 0.5, from 0.2, below, and without calibration data."""
Metric = Literal["inner_product", "cosine"]
"""Scores of a row for a query."""
Order = Literal["score", "date"]
"""Orders of hits: best first, or newest first (when the image was taken, else the file's date)."""
Precision = Literal["fp32", "bf16", "int8", "auto"]
"""Number formats of a model's arithmetic. "auto" is the fastest that keeps the embeddings of fp32."""
QueryKind = Literal["text", "image"]
"""Kinds of queries that are calibrated separately."""
RerankMethod = Literal["strongest", "cosine", "maxsim", "match"]
"""Scores by which a second model ranks the best hits of a search."""


class SearchOptions(TypedDict, total=False):
    """Options of `Engine.search`, `search_all` and `like`, which `Engine.search` describes."""

    k: int
    offset: int
    filter: str
    keyword_weight: float
    min_probability: float | None
    group_duplicates: bool
    group_above: float
    order: Order
    chunk_long_text: bool
    candidates: int
    exact: bool
    exact_rescore: int
    rerank: Encoder | None
    rerank_depth: int
    rerank_by: RerankMethod
    explain: bool
    explain_by: MapMethod | None


class IndexOptions(TypedDict, total=False):
    """Options of `Engine.index` and `watch`, which `Engine.index` describes."""

    prune: bool
    retry_failed: bool
    follow_links: bool
    hidden: bool
    exclude: str | Iterable[str]
    captions: Mapping[str | os.PathLike[str], str] | None
    ignore_files: bool
    sidecars: bool
    metadata: bool
    video_seconds: float
    video_frames: int
    batch_size: int
    max_pixels: int


def _loaded(model: Any, what: str) -> Any:
    """Return the library's object of a loaded model."""
    from ._encoder import Encoder

    if not isinstance(model, Encoder):
        raise InvalidInput(f"{what} is a {type(model).__name__}, expected a loaded model (saccade.load)")
    return model._core


def _patterns(patterns: Any, what: str) -> list[bytes]:
    listed = [patterns] if isinstance(patterns, str) else several(patterns, what, "strings")
    return [os.fsencode(string(pattern, what, surrogates=True)) for pattern in listed]


def _captions(captions: Any, what: str) -> dict[bytes, str]:
    try:
        pairs = list(captions.items())
    except AttributeError:
        raise InvalidInput(f"{what} is a {type(captions).__name__}, expected a dict of captions by path") from None
    return {path_of(path, what): string(caption, f"{what}: that of {path}") for path, caption in pairs}


# Check of each option's value. Options that may be None are then left to the library's default, which is none.
_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "k": whole,
    "offset": whole,
    "filter": string,
    "keyword_weight": number,
    "min_probability": number,
    "group_duplicates": flag,
    "group_above": number,
    "order": string,
    "chunk_long_text": flag,
    "candidates": whole,
    "exact": flag,
    "exact_rescore": whole,
    "rerank": _loaded,
    "rerank_depth": whole,
    "rerank_by": string,
    "explain": flag,
    "explain_by": string,
    "prune": flag,
    "retry_failed": flag,
    "follow_links": flag,
    "hidden": flag,
    "exclude": _patterns,
    "captions": _captions,
    "ignore_files": flag,
    "sidecars": flag,
    "metadata": flag,
    "video_seconds": number,
    "video_frames": whole,
    "batch_size": lambda value, what: whole(value, what, bits=32),
    "max_pixels": whole,
}
_MAY_BE_NONE = ("min_probability", "rerank", "explain_by", "captions")


def checked(call: str, options: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Return the options of a call as the library takes them. `kind` is SearchOptions or IndexOptions. Raises TypeError for
    an option that there is not, and InvalidInput for a value of a wrong type."""
    for name in options:
        if name not in kind.__annotations__:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")
    return {
        name: _CHECKS[name](value, name)
        for name, value in options.items()
        if not (value is None and name in _MAY_BE_NONE)
    }
