"""Queries: a text, an image, or parts of both."""

from __future__ import annotations

import copy
import os
from typing import Any, Literal

from ._errors import InvalidInput, NotFound
from ._images import ImageLike, image_of

ComposeMethod = Literal["sum", "slerp", "direction"]


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
        if text is not None and not isinstance(text, str):
            raise InvalidInput(f"a query's text is a {type(text).__name__}, expected a string")
        self._text = text
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
        return self._with(_text=change, _literal=False)

    def like(self, id: int) -> Query:
        """Add an image of the collection, by its id, as the query's only image. It is itself left out of the hits.
        Raises NotFound for a number that is no id."""
        number = int(id)
        if not 0 < number < 2**63:
            raise NotFound(f"id {number}: no such item")
        return self._with(_liked=number)

    def without(self, *texts: str) -> Query:
        """Add what is not wanted."""
        return self._with(_unwanted=self._unwanted + texts)

    def and_image(self, image: ImageLike, weight: float = 1.0) -> Query:
        """Add an image, with a weight above 0 and at most 10, or below 0 if it is not wanted. The first image of a query
        without a text has weight 1."""
        return self._with(_pictures=(*self._pictures, (image, float(weight))))

    def compose(
        self, method: ComposeMethod | str | os.PathLike[str], text_weight: float | None = None
    ) -> Query:
        """Set how image and text are combined: by a method, with the weight of the text, 0 to 1 (None: the method's own);
        or by a trained composer, its folder or "starter" for the one that comes with Saccade."""
        if method in ("sum", "slerp", "direction"):
            return self._with(_method=method, _text_weight=text_weight, _composer=None)
        if text_weight is not None:
            raise InvalidInput("text_weight is for sum, slerp and direction, not for a composer")
        composer = os.fsencode(os.path.expanduser(method))
        if not composer:
            raise InvalidInput('compose is "", expected sum, slerp, direction, starter, or the folder of a composer')
        return self._with(_method=None, _text_weight=None, _composer=composer)

    def was(self, description: str) -> Query:
        """Describe what the image shows now, for the method "direction"."""
        return self._with(_description=description)

    def _images(self) -> list[tuple[Any, float]]:
        return [(image_of(image), weight) for image, weight in self._pictures]
