"""Queries: a text, an image, or parts of both."""

from __future__ import annotations

import copy
import os
from typing import Any, get_args

from ._checks import number, path_of, string, texts_of, whole
from ._errors import InvalidInput, NotFound
from ._images import ImageLike, bytes_of, image_of
from ._options import Compose


def id_of(id: Any) -> int:
    """Return the id of an image. Raises NotFound for a number that is no id."""
    checked = whole(id, "id", bits=1024)
    if not 0 < checked < 2**63:
        raise NotFound(f"id {checked}: no such item")
    return checked


class Query:
    """What is searched for. A value: each method returns a new query.

    Query("a red door")
    Query.image("holiday.jpg").but("at night")
    Query("at night").like(hit.id)
    Query("beach").without("people").and_image("sunset.jpg", 0.5)

    In a text, words in quotes belong together, "-word" is not wanted and "word:2" has weight 2; with `literal` it is taken
    as it stands.
    """

    def __init__(self, text: str | None = None, *, literal: bool = False) -> None:
        self._text = None if text is None else string(text, "a query's text")
        self._literal = literal
        self._pictures: tuple[tuple[Any, float], ...] = ()
        self._liked: int | None = None
        self._unwanted: tuple[str, ...] = ()
        self._method: str | None = None
        self._text_weight: float | None = None
        self._composer: bytes | None = None
        self._description = ""

    @classmethod
    def image(cls, image: ImageLike) -> Query:
        """Make a query of an image: whatever `Encoder.encode_images` takes."""
        return cls().and_image(image)

    def _with(self, **changes: Any) -> Query:
        changed = copy.copy(self)
        changed.__dict__.update(changes)
        return changed

    def but(self, change: str) -> Query:
        """Add a change in words: "this picture, but ..." """
        return self._with(_text=string(change, "but"), _literal=False)

    def like(self, id: int) -> Query:
        """Add an image of the collection, by its id, as the query's only image. It is itself left out of the hits.
        Raises NotFound for a number that is no id."""
        return self._with(_liked=id_of(id))

    def without(self, *texts: str) -> Query:
        """Add what is not wanted."""
        return self._with(_unwanted=(*self._unwanted, *texts_of(texts, "without")[0]))

    def and_image(self, image: ImageLike, weight: float = 1.0) -> Query:
        """Add an image, with a weight above 0 and at most 10, or below 0 if it is not wanted. The first image of a query
        without a text has weight 1."""
        if hasattr(image, "read"):
            image = bytes_of(image)  # a query may be searched for twice
        return self._with(_pictures=(*self._pictures, (image, number(weight, "weight"))))

    def compose(self, method: Compose | str | os.PathLike[str], text_weight: float | None = None) -> Query:
        """Set how image and text are combined: by a method, with the weight of the text, 0 to 1 (None: the method's own);
        or by a trained composer, its folder or "starter" for the one that comes with Saccade."""
        if isinstance(method, str) and method in get_args(Compose):
            if text_weight is not None:
                text_weight = number(text_weight, "text_weight")
            return self._with(_method=method, _text_weight=text_weight, _composer=None)
        if text_weight is not None:
            raise InvalidInput("text_weight is for sum, slerp and direction, not for a composer")
        composer = path_of(method, "compose")
        if not composer:
            raise InvalidInput('compose is "", expected sum, slerp, direction, starter, or the folder of a composer')
        return self._with(_method=None, _text_weight=None, _composer=composer)

    def was(self, description: str) -> Query:
        """Describe what the image shows now, for the method "direction"."""
        return self._with(_description=string(description, "was"))

    def __repr__(self) -> str:
        parts = [] if self._text is None else [repr(self._text)]
        parts += [f"{len(self._pictures)} images"] if self._pictures else []
        parts += [] if self._liked is None else [f"like {self._liked}"]
        parts += [f"without {list(self._unwanted)}"] if self._unwanted else []
        return f"Query({', '.join(parts)})"

    def _images(self) -> list[tuple[Any, float]]:
        return [(image_of(image), weight) for image, weight in self._pictures]
