"""Checks of values that callers pass. A wrong one raises InvalidInput, which names it."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._errors import InvalidInput

_SURROGATES = re.compile("[\ud800-\udfff]")


def whole(value: Any, what: str, bits: int = 64) -> int:
    """Return a whole number of that many bits: of an int, NumPy's, or a float without a fraction."""
    try:
        if isinstance(value, (float, np.floating)) and float(value).is_integer():
            value = int(value)
        result = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{what} is {value!r}, expected a whole number") from None
    if not -(2 ** (bits - 1)) <= result < 2 ** (bits - 1):
        raise InvalidInput(f"{what} is {result}, expected a number of {bits} bits")
    return result


def number(value: Any, what: str) -> float:
    """Return a float: of a float, an int, or NumPy's."""
    if not isinstance(value, (str, bytes, bytearray)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise InvalidInput(f"{what} is {value!r}, expected a number")


def flag(value: Any, what: str) -> bool:
    """Return a bool: of a bool, NumPy's, 0 or 1."""
    if isinstance(value, (int, np.bool_, np.integer)) and value in (0, 1):
        return bool(value)
    raise InvalidInput(f"{what} is {value!r}, expected True or False")


def string(value: Any, what: str, *, surrogates: bool = False) -> str:
    """Return a string of valid Unicode: a surrogate alone becomes U+FFFD, unless file names are meant (os.fsdecode)."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is a {type(value).__name__}, expected a string")
    if not surrogates and not value.isascii() and _SURROGATES.search(value):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def several(values: Any, what: str, expected: str) -> Iterable[Any]:
    """Return the values if they are a list or another iterable of one axis. Tables are refused: pandas iterates over the names
    of their columns."""
    axes = getattr(values, "ndim", 1)
    if isinstance(values, (bytes, bytearray)) or not isinstance(values, Iterable) or axes != 1:
        kind = type(values).__name__ + (f" of {axes} axes" if axes != 1 else "")
        raise InvalidInput(f"{what} is a {kind}, expected {expected}")
    return values


def texts_of(texts: str | Iterable[str], what: str = "texts") -> tuple[list[str], bool]:
    """Return texts as a list of valid Unicode, and whether one text was given."""
    if isinstance(texts, str):
        return [string(texts, what)], True
    listed = []
    for index, value in enumerate(several(texts, what, "a string or several")):
        if not isinstance(value, str):
            raise InvalidInput(f"{what}: text {index} is a {type(value).__name__}, expected a string", index=index)
        listed.append(string(value, what))
    return listed, False


def path_of(path: Any, what: str) -> bytes:
    """Return the bytes of a path; "~" is the home folder."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(f"{what} is a {type(path).__name__}, expected a path")
    try:
        return os.fsencode(os.path.expanduser(path))
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} is {os.fspath(path)!r}, which is no path: {error.reason}") from None
