"""Loaded models."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._arrays import as_numpy, float_rows
from ._checks import several, string, texts_of, whole
from ._errors import Error, InvalidInput, error_of
from ._images import ImageLike, Stream, image_of, is_one_image
from ._multi import MultiEmbeddings
from ._options import Precision
from ._progress import Progress, ProgressFunction


@dataclass(frozen=True)
class Skipped:
    """An input that was left out, with its position among the inputs and the reason."""

    index: int
    error: Error


@dataclass(frozen=True)
class EffectiveLength:
    """Effective text length of a model on one dataset, as `saccade-lab eval length` measured it: tokens beyond it hardly
    change what is found. Counts a text's own tokens, without start and end."""

    dataset: str
    domain: str
    """Of the dataset's texts, in a word; may be empty."""
    precision: str
    tokens: int
    """With which R@1 first reaches `share` of its largest value."""
    low: int | None
    """Interval of that."""
    high: int | None
    confidence: float
    share: float
    r1: float
    """The largest R@1."""
    longest: int
    """Tokens of the longest text."""
    longer_texts: float
    """Share of the texts that have more than `tokens`."""
    at_end: bool
    """The texts ended before the effect did."""
    images: int
    texts: int


class TokenUse(NamedTuple):
    """Tokens of texts, without start, end and padding: int64 [n] each, or numbers for one text."""

    used: Any
    """Read by the model."""
    dropped: Any
    """Cut off behind them, because the text is longer than the model reads."""


def load(
    checkpoint: str | os.PathLike[str] = "starter",
    *,
    precision: Precision = "fp32",
    threads: int = 0,
    device: str = "cpu",
) -> Encoder:
    """Load a model.

    Args:
        checkpoint: a folder, OWNER/NAME[@REVISION] of the hub's cache, "starter" (the small model that comes with
            Saccade), or an alias of the command line. Nothing is downloaded: `saccade model pull` and
            `huggingface-cli download` do that.
        precision: "fp32" is exact. "auto" measures which of fp32, bf16 and int8 is fastest and keeps the embeddings; it is
            up to seven times as fast and takes some seconds longer to load.
        threads: of a forward pass and of decoding; 0 uses all processors of the process; at most 1,024.
        device: "cpu", "cuda", or "cuda:1" for the second GPU. A GPU encodes with models of the CLIP family, in "fp32" and
            "bf16", by the library that a saccade-lab built for CUDA brings.

    Raises:
        NotFound: there is no such checkpoint; the message says how to get it.
        BadData, Unsupported, Mismatch: the checkpoint's files; the message names file, tensor or field.
        Unsupported: there is no such device, or the model does not run on it.
    """
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise InvalidInput(f"checkpoint is a {type(checkpoint).__name__}, expected a name or a path")
    threads = whole(threads, "threads", bits=32)
    core = _core.load(os.fsencode(checkpoint), string(precision, "precision"), threads, string(device, "device"))
    return Encoder._of(core, threads)


class Encoder:
    """A loaded model, which turns images and texts into embeddings of one space. Made by `saccade.load`.

    May be used from several threads; calls are run one after the other. Other Python threads run meanwhile. Ctrl-C ends a
    call within a second. In a child process made by fork, the first use loads the model again; pickling (spawn, Ray,
    Spark) sends the name of the folder, and the other side loads it.
    """

    _core: _core.Encoder
    _threads: int
    _info: dict[str, Any]

    def __init__(self) -> None:
        raise TypeError("saccade.load() makes encoders")

    @classmethod
    def _of(cls, core: _core.Encoder, threads: int) -> Encoder:
        encoder = object.__new__(cls)
        encoder._core = core
        encoder._threads = threads
        encoder._info = core.info()
        return encoder

    def __reduce__(self) -> Any:
        return (_load_again, (os.path.abspath(self.folder), self.precision, self._threads, self.device))

    def __repr__(self) -> str:
        return f"Encoder({self.name!r}, dim={self.dim}, precision={self.precision!r})"

    @property
    def name(self) -> str:
        """Display name: OWNER/NAME, the run folder's name for the result of a training, else the folder's own."""
        return self._info["name"]

    @property
    def folder(self) -> str:
        """Folder that it was loaded from."""
        return self._info["folder"]

    @property
    def family(self) -> str:
        """Kind of model: "clip", "siglip", ..."""
        return self._info["family"]

    @property
    def layout(self) -> str:
        """Layout of its files: "hugging_face", "open_clip", ..."""
        return self._info["layout"]

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all files that decide what it answers, 64 hexadecimal digits."""
        return self._info["fingerprint"]

    @property
    def precision(self) -> Precision:
        """Number format of its products: "fp32", "bf16" or "int8"; never "auto"."""
        return self._info["precision"]

    @property
    def device(self) -> str:
        """Device that encodes: "cpu", "cuda" or "cuda:1"."""
        return self._info["device"]

    @property
    def dim(self) -> int:
        """Values of an embedding."""
        return self._info["dim"]

    @property
    def context(self) -> int:
        """Tokens that it reads of a text, start and end included."""
        return self._info["context"]

    @property
    def parameters(self) -> int:
        """Number of its parameters."""
        return self._info["parameters"]

    @property
    def image_size(self) -> tuple[int, int]:
        """(height, width) of its input in pixels; (0, 0) if it reads texts alone."""
        return self._info["image_height"], self._info["image_width"]

    @property
    def logit_scale(self) -> float:
        """Learned factor on cosines (exp of the log inverse temperature); 1 if none is learned."""
        return self._info["logit_scale"]

    @property
    def shared_space(self) -> bool:
        """False if images and texts were never trained into one space."""
        return self._info["shared_space"]

    @property
    def preprocessing(self) -> str:
        """How images become its input, in words."""
        return self._info["preprocessing"]

    @property
    def preprocessing_guessed(self) -> bool:
        """True if the checkpoint does not say how images are resized and normalized."""
        return self._info["preprocessing_guessed"]

    @property
    def notes(self) -> list[str]:
        """What people should know about how it was loaded, a sentence each."""
        return list(self._info["notes"])

    @property
    def reads_texts(self) -> bool:
        """True if the checkpoint has a tokenizer."""
        return self._info["reads_texts"]

    @property
    def special_tokens(self) -> dict[str, int]:
        """Ids of the "start", "end" and "pad" tokens; -1 without a tokenizer."""
        return {name: self._info[f"{name}_id"] for name in ("start", "end", "pad")}

    @property
    def has_late_interaction(self) -> bool:
        """True if it gives several vectors for each image and text."""
        return self._info["has_late_interaction"]

    @property
    def has_pair_scorer(self) -> bool:
        """True if it has a matching head, which scores an image and a text together."""
        return self._info["has_pair_scorer"]

    @property
    def has_relevance_maps(self) -> bool:
        """True if `relevance_map` can be computed."""
        return self._info["has_relevance_maps"]

    @property
    def has_visualness(self) -> bool:
        """True if it was trained to tell visual texts from others."""
        return self._info["has_visualness"]

    @overload
    def encode_images(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        batch_size: int = 32,
        errors: Literal["raise"] = "raise",
        progress: bool | ProgressFunction = False,
    ) -> NDArray[np.float32]: ...
    @overload
    def encode_images(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        batch_size: int = 32,
        errors: Literal["skip"],
        progress: bool | ProgressFunction = False,
    ) -> tuple[NDArray[np.float32], list[Skipped]]: ...
    def encode_images(self, images, *, batch_size=32, errors="raise", progress=False):
        """Encode images.

        Args:
            images: one image, or a list, iterator or generator of them; an array [n, height, width, channels] is n images.
                An image is a path, the bytes of a file, an open binary file, a Pillow image, a uint8 array [height, width,
                channels] or [height, width], or a torch tensor uint8 [channels, height, width]. Of an iterator, only one
                batch is held at a time. EXIF orientation is applied to files and bytes; pixels are taken as they are.
            batch_size: images in a pass of the model, at least 1.
            errors: "raise" raises the first error; its message and `index` say which image it was. "skip" leaves such
                images out and returns them beside the embeddings.
            progress: True shows a bar if tqdm is installed, else a line every two seconds. A function is called as
                `function(done, total, what)`.

        Returns:
            float32 [n, dim], rows of length 1; [dim] for one image. With errors="skip" a tuple of the embeddings of the
            other images, in order, and a list of `Skipped`.

        Raises:
            InvalidInput: something that is no image.
            NotFound, BadData, Unsupported, LimitExceeded: reading an image.
            Unsupported: the model reads texts alone.

        Files are decoded in processes of their own, under limits of memory and time.
        """
        if errors not in ("raise", "skip"):
            raise InvalidInput(f'errors is {errors!r}, expected "raise" or "skip"')
        stream, single, total = _stream(images, errors == "skip")
        with Progress(progress, total) as function:
            try:
                rows, found = self._core.encode_images(iter(stream), _batch(batch_size), errors == "skip", function)
            except Error as error:
                _set_index(error)
                raise
        if errors == "raise":
            return rows[0] if single else rows
        skipped = [Skipped(index, stream.failed.get(index) or _indexed(error, index)) for index, error in found]
        return rows, skipped

    def encode_texts(
        self, texts: str | Iterable[str], *, batch_size: int = 32, progress: bool | ProgressFunction = False
    ) -> NDArray[np.float32]:
        """Encode texts.

        A text longer than the model reads is cut; `tokens` tells which are.

        Args:
            texts: one string, or several: a list, an array or column of strings, an iterator.
            batch_size: texts in a pass of the model.
            progress: see `encode_images`.

        Returns:
            float32 [n, dim], rows of length 1; [dim] for one string.

        Raises:
            Unsupported: the checkpoint has no tokenizer.
        """
        listed, single = texts_of(texts)
        with Progress(progress, len(listed)) as function:
            rows = self._core.encode_texts(listed, _batch(batch_size), function)
        return rows[0] if single else rows

    def encode_pixels(
        self, pixels: Any, *, batch_size: int = 32, progress: bool | ProgressFunction = False
    ) -> NDArray[np.float32]:
        """Encode images that are preprocessed already.

        Args:
            pixels: float32 [n, 3, height, width] of `image_size`, normalized as the model wants it; a NumPy array or a CPU
                tensor. Read in place if it is contiguous.

        Returns:
            float32 [n, dim]; [dim] for pixels [3, height, width].
        """
        array = as_numpy(pixels, "pixels")
        single = array.ndim == 3
        if single:
            array = array[None]
        if array.ndim != 4 or array.shape[1:] != (3, *self.image_size):
            height, width = self.image_size
            raise InvalidInput(f"pixels: shape {array.shape}, the model reads [n, 3, {height}, {width}]")
        rows, _ = float_rows(np.ascontiguousarray(array).reshape(len(array), np.prod(array.shape[1:])), "pixels")
        with Progress(progress, len(rows)) as function:
            encoded = self._core.encode_pixels(rows, _batch(batch_size), function)
        return encoded[0] if single else encoded

    def preprocess(self, images: ImageLike | Iterable[ImageLike]) -> NDArray[np.float32]:
        """Turn decoded images (Pillow's, arrays or tensors) into the model's input: float32 [n, 3, height, width], or
        [3, height, width] for one image. Resizing agrees with Pillow to the bit."""
        single = is_one_image(images)
        inputs = [image_of(image) for image in ([images] if single else images)]
        rows = self._core.preprocess(inputs).reshape(len(inputs), 3, *self.image_size)
        return rows[0] if single else rows

    def encode_images_multi(
        self, images: Iterable[ImageLike], *, batch_size: int = 32, progress: bool | ProgressFunction = False
    ) -> MultiEmbeddings:
        """Encode images as several vectors each, for `saccade.maxsim`. Raises Unsupported without late interaction."""
        stream, _, total = _stream(images, False)
        with Progress(progress, total) as function:
            try:
                rows, begin = self._core.encode_images_multi(iter(stream), _batch(batch_size), function)
            except Error as error:
                _set_index(error)
                raise
        return MultiEmbeddings(rows, begin)

    def encode_texts_multi(
        self, texts: str | Iterable[str], *, batch_size: int = 32, progress: bool | ProgressFunction = False
    ) -> MultiEmbeddings:
        """Encode texts as several vectors each. Raises Unsupported without late interaction."""
        listed, _ = texts_of(texts)
        with Progress(progress, len(listed)) as function:
            return MultiEmbeddings(*self._core.encode_texts_multi(listed, _batch(batch_size), function))

    def tokens(self, texts: str | Iterable[str]) -> TokenUse:
        """Count the tokens of each text that the model reads, and those that it drops."""
        listed, single = texts_of(texts)
        used, dropped = self._core.tokens(listed)
        return TokenUse(int(used[0]), int(dropped[0])) if single else TokenUse(used, dropped)

    def encode_tokens(
        self, ids: Iterable[Any], *, batch_size: int = 32, progress: bool | ProgressFunction = False
    ) -> NDArray[np.float32]:
        """Encode texts that are tokenized already.

        Args:
            ids: for each text its token ids, start and end included, without padding: what `tokenize` returns.

        Returns:
            float32 [n, dim].

        Raises:
            InvalidInput: no ids, or more than `context`.
            Mismatch: an id is not of the model's vocabulary.
        """
        listed = []
        for index, one in enumerate(ids):
            what = f"ids: text {index}"
            listed.append([whole(id, what, bits=32) for id in several(one, what, "a list of token ids")])
        with Progress(progress, len(listed)) as function:
            return self._core.encode_tokens(listed, _batch(batch_size), function)

    def encode(
        self, inputs: Any, *, batch_size: int = 32, progress: bool | ProgressFunction = False
    ) -> NDArray[np.float32]:
        """Encode texts and images of one list: strings are texts, all else (paths as `pathlib.Path`, Pillow images, arrays,
        bytes, tensors) are images.

        Returns:
            float32 [n, dim], in the order of the inputs; [dim] for one input.
        """
        if isinstance(inputs, str):
            return self.encode_texts(inputs, batch_size=batch_size, progress=progress)
        if is_one_image(inputs):
            return self.encode_images(inputs, batch_size=batch_size, progress=progress)
        if getattr(inputs, "ndim", 1) == 4:
            return self.encode_images(inputs, batch_size=batch_size, progress=progress)
        listed = list(several(inputs, "inputs", "texts, images, or a list of them"))
        of_text = np.array([isinstance(value, str) for value in listed], bool)
        rows = np.empty((len(listed), self.dim), np.float32)
        if of_text.any():
            texts = [value for value in listed if isinstance(value, str)]
            rows[of_text] = self.encode_texts(texts, batch_size=batch_size, progress=progress)
        if not of_text.all():
            images = [value for value in listed if not isinstance(value, str)]
            rows[~of_text] = self.encode_images(images, batch_size=batch_size, progress=progress)
        return rows

    def tokenize(self, texts: str | Iterable[str], *, max_tokens: int | None = None) -> Any:
        """Return token ids as the model reads them, start and end included: int32 [tokens] for one string, else a list.

        `max_tokens` is the model's own limit by default.
        """
        listed, single = texts_of(texts)
        if max_tokens is not None:
            max_tokens = whole(max_tokens, "max_tokens")
            if max_tokens < 2:
                raise InvalidInput(f"max_tokens is {max_tokens}, expected 2 or more")
        ids = self._core.tokenize(listed, max_tokens)
        return ids[0] if single else ids

    def score_pairs(
        self,
        images: Iterable[ImageLike],
        texts: str | Iterable[str],
        *,
        batch_size: int = 32,
        progress: bool | ProgressFunction = False,
    ) -> NDArray[np.float32]:
        """Score image i with text i by the model's matching head; higher is a better match.

        Slower and more accurate than the cosine of embeddings, so it serves to rerank the best hits. Scores of one text
        are comparable.

        Returns:
            float32 [n].

        Raises:
            Unsupported: the model has no matching head.
            InvalidInput: there are more of one than of the other.
            NotFound, BadData, LimitExceeded: reading an image.
        """
        listed, _ = texts_of(texts)
        stream, _, total = _stream(images, False)
        with Progress(progress, total) as function:
            return self._core.score_pairs(iter(stream), listed, _batch(batch_size), function)

    def relevance_map(self, image: ImageLike, text: str) -> NDArray[np.float32]:
        """Map where in the image its score for the text comes from, by LeGrad (arXiv 2404.03214).

        Returns:
            float32 [rows, columns] of patches, from the top left; 0 or more, comparable within one map.

        Raises:
            Unsupported: the model's image tower is no transformer.
        """
        return self._core.relevance_map(image_of(image), string(text, "text"))

    @property
    def effective_lengths(self) -> list[EffectiveLength]:
        """Effective text lengths that `saccade-lab eval length` kept beside the weights, one for each dataset."""
        return [EffectiveLength(**length) for length in self._core.effective_lengths()]

    def visualness(self, texts: str | Iterable[str]) -> Any:
        """Score how visual each text is, 0 to 2, higher is more visual (Verma et al., EMNLP 2023).

        Returns:
            float64 [n]; a float for one string.

        Raises:
            Unsupported: the model was not trained for it.
        """
        listed, single = texts_of(texts)
        scores = self._core.visualness(listed)
        return float(scores[0]) if single else scores


def _load_again(folder: str, precision: Precision, threads: int, device: str = "cpu") -> Encoder:
    return load(folder, precision=precision, threads=threads, device=device)


def _stream(images: Any, skip: bool) -> tuple[Stream, bool, int]:
    """The inputs, whether they are one image, and their number (0: not known)."""
    if is_one_image(images):
        return Stream([images], skip), True, 1
    if not isinstance(images, Iterable) or getattr(images, "ndim", 4) == 2:
        raise InvalidInput(f"images: a {type(images).__name__}, expected an image or several")
    total = len(images) if isinstance(images, (Sequence, np.ndarray)) or hasattr(images, "__len__") else 0
    return Stream(images, skip), False, total


def _batch(size: Any) -> int:
    return whole(size, "batch_size", bits=32)


def _indexed(found: tuple[str, str], index: int) -> Error:
    error = error_of(found)
    error.index = index
    return error


def _set_index(error: Error) -> None:
    """The library's message begins with the number of the image."""
    if error.index is None and (named := re.match(r"image (\d+) \(", str(error))):
        error.index = int(named[1])
