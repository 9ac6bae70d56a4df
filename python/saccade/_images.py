"""Images as people pass them: paths, bytes, file objects, Pillow's images, arrays, tensors."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any, Union

import numpy as np

from . import _core
from ._errors import BadData, Error, InvalidInput

ImageLike = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, IO[bytes], np.ndarray, Any]
"""One image: a file's path, a file's bytes, an open binary file, a Pillow image, a uint8 array [height, width, channels]
or [height, width], or a torch tensor uint8 [channels, height, width]."""

_CHANNELS = (1, 2, 3, 4)
# Pillow's modes whose bytes are taken as they are, with their channels.
_PILLOW_MODES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}


def _is_pillow(value: Any) -> bool:
    return hasattr(value, "tobytes") and hasattr(value, "mode") and hasattr(value, "convert")


def _is_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def is_one_image(value: Any) -> bool:
    """Tell one image from several."""
    if isinstance(value, (str, os.PathLike, bytes, bytearray, memoryview)) or _is_pillow(value):
        return True
    if isinstance(value, np.ndarray):
        return value.ndim < 4 and value.dtype.kind not in "OUST"
    if hasattr(value, "__dlpack__"):
        return getattr(value, "ndim", 3) < 4
    return hasattr(value, "read")


def _of_pillow(image: Any) -> _core.ImageInput:
    mode = image.mode
    try:
        if mode == "1":
            plain = image.convert("L")
        elif mode == "P":
            plain = image.convert("RGBA" if "transparency" in image.info else "RGB")
        elif mode in _PILLOW_MODES:
            plain = image
        else:
            plain = image.convert("RGB")
        pixels = plain.tobytes()
    except (OSError, SyntaxError, ValueError) as error:
        raise BadData(f"Pillow cannot decode it: {error}") from error
    return _core.image_of_pillow(pixels, plain.width, plain.height, _PILLOW_MODES[plain.mode], mode)


def _of_array(value: Any) -> _core.ImageInput:
    array = value
    if not isinstance(array, np.ndarray):
        try:
            array = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise InvalidInput(f"a tensor that cannot be read in place ({error}); move it to the CPU first") from error
        if _is_torch(value) and array.ndim == 3:
            if array.shape[0] not in _CHANNELS:
                raise InvalidInput(f"a tensor of shape {array.shape}, expected [channels, height, width]")
            array = array.transpose(1, 2, 0)
    if array.dtype != np.uint8:
        raise InvalidInput(f"an array of {array.dtype}, expected uint8; encode_pixels() takes preprocessed float32")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in _CHANNELS or 0 in array.shape:
        raise InvalidInput(f"an array of shape {array.shape}, expected [height, width, 1 to 4 channels]")
    return _core.image_of_pixels(array)


def bytes_of(file: Any) -> bytes:
    """Read an open file. Raises InvalidInput for a text file and for one that is closed."""
    if not isinstance(file, io.TextIOBase):
        try:
            data = file.read()
        except ValueError as error:
            raise InvalidInput(f"an open file: {error}") from error
        if isinstance(data, bytes):
            return data
    raise InvalidInput("a text file, expected one opened in binary mode")


def image_of(value: Any) -> _core.ImageInput:
    """Make an input of one image. Raises InvalidInput for a type or shape that is no image."""
    if isinstance(value, (str, os.PathLike)):
        try:
            return _core.image_of_path(os.fsencode(value))
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{os.fspath(value)!r} is no path: {error.reason}") from None
    if isinstance(value, bytes):
        return _core.image_of_bytes(value)
    if isinstance(value, (bytearray, memoryview)):
        return _core.image_of_bytes(bytes(value))
    if _is_pillow(value):
        return _of_pillow(value)
    if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
        return _of_array(value)
    if hasattr(value, "read"):
        return _core.image_of_bytes(bytes_of(value))
    raise InvalidInput(f"a {type(value).__name__}, expected a path, bytes, a file, a Pillow image or a uint8 array")


class Stream:
    """Inputs made one by one while the library takes them, so that nothing is held that was only listed.

    With `skip`, values that are no images are kept in `failed` by index and fail there; otherwise the first one ends the
    stream with its error.
    """

    def __init__(self, images: Iterable[Any], skip: bool) -> None:
        self._images, self._skip = images, skip
        self.failed: dict[int, Error] = {}

    def __iter__(self) -> Iterator[_core.ImageInput]:
        for index, value in enumerate(self._images):
            try:
                yield image_of(value)
            except (Error, OSError) as error:
                kind = type(error) if isinstance(error, Error) else BadData
                failure = kind(f"image {index}: {error}", index=index)
                if not self._skip:
                    raise failure from error
                self.failed[index] = failure
                yield _core.no_image()
