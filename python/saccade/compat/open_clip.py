"""OpenCLIP's interface for code that only infers: the same calls, over a Saccade model. Needs torch.

    from saccade.compat import open_clip

    model, _, preprocess = open_clip.create_model_and_transforms("openai/clip-vit-base-patch32")
    tokenizer = open_clip.get_tokenizer("openai/clip-vit-base-patch32")
    images = model.encode_image(preprocess(Image.open("a.jpg")).unsqueeze(0))
    texts = model.encode_text(tokenizer(["a dog", "a cat"]))
    probabilities = (model.logit_scale.exp() * images @ texts.T).softmax(dim=-1)

Features have length 1 with and without `normalize`. Nothing is trained: there are no gradients.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .. import _encoder
from .._images import ImageLike


class Transform:
    """Turns one image into the model's input: a float32 tensor [3, height, width]."""

    def __init__(self, encoder: _encoder.Encoder) -> None:
        self._encoder = encoder

    def __call__(self, image: ImageLike) -> torch.Tensor:
        return torch.from_numpy(self._encoder.preprocess(image))

    def __repr__(self) -> str:
        return f"Transform({self._encoder.preprocessing})"


class Tokenizer:
    """Turns texts into token ids: an int64 tensor [n, context_length], padded with the model's padding token behind the end
    token."""

    def __init__(self, encoder: _encoder.Encoder) -> None:
        self._encoder = encoder
        self.context_length = encoder.context

    def __call__(self, texts: str | list[str], context_length: int | None = None) -> torch.Tensor:
        listed = [texts] if isinstance(texts, str) else list(texts)
        length = context_length or self.context_length
        ids = torch.full((len(listed), length), self._encoder.special_tokens["pad"], dtype=torch.int64)
        for row, tokens in zip(ids, self._encoder.tokenize(listed, max_tokens=length)):
            row[: len(tokens)] = torch.from_numpy(tokens)
        return ids


class Model:
    """What inference code uses of OpenCLIP's `CLIP`."""

    def __init__(self, encoder: _encoder.Encoder) -> None:
        self.encoder = encoder
        self.logit_scale = torch.tensor(math.log(encoder.logit_scale))
        """Logarithm of the factor on cosines."""
        self.context_length = encoder.context
        self.visual = self

    @property
    def image_size(self) -> tuple[int, int]:
        return self.encoder.image_size

    def encode_image(self, image: torch.Tensor, normalize: bool = False) -> torch.Tensor:
        """Encode preprocessed images, float32 [n, 3, height, width]: float32 [n, dim], rows of length 1."""
        pixels = image.detach().to("cpu", torch.float32).contiguous()
        return torch.from_numpy(self.encoder.encode_pixels(pixels))

    def encode_text(self, text: torch.Tensor, normalize: bool = False) -> torch.Tensor:
        """Encode token ids of this model's tokenizer, [n, context_length]: float32 [n, dim], rows of length 1."""
        rows = [self._without_padding(ids) for ids in text.to("cpu").numpy()]
        return torch.from_numpy(self.encoder.encode_tokens(rows))

    def _without_padding(self, ids: np.ndarray) -> np.ndarray:
        ends = np.flatnonzero(ids == self.encoder.special_tokens["end"])
        if len(ends):
            return ids[: ends[0] + 1]  # padding stands behind the first end token
        real = np.flatnonzero(ids != self.encoder.special_tokens["pad"])
        return ids[: real[-1] + 1] if len(real) else ids[:1]

    def __call__(self, image: torch.Tensor, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.encode_image(image), self.encode_text(text), self.logit_scale.exp()

    def eval(self) -> Model:
        return self

    def train(self, mode: bool = True) -> Model:
        if mode:
            raise NotImplementedError("a Saccade model infers; saccade-lab trains")
        return self

    def to(self, *_: Any, **__: Any) -> Model:
        """Do nothing: models compute on the CPU."""
        return self

    cpu = float = requires_grad_ = to

    def parameters(self) -> list[Any]:
        return []


def create_model_and_transforms(
    model_name: str, pretrained: str | None = None, *, precision: str = "fp32", threads: int = 0, **_: Any
) -> tuple[Model, Transform, Transform]:
    """Load a model: (model, transform, transform). `model_name` is what `saccade.load` takes; `pretrained` is ignored."""
    encoder = _encoder.load(model_name, precision=precision, threads=threads)  # type: ignore[arg-type]
    transform = Transform(encoder)
    return Model(encoder), transform, transform


def get_tokenizer(model_name: str | Model) -> Tokenizer:
    """Return the tokenizer of a model, or of its name."""
    return Tokenizer(model_name.encoder if isinstance(model_name, Model) else _encoder.load(model_name))


def load_clip_benchmark(
    model_name: str, pretrained: str = "", cache_dir: str | None = None, device: str = "cpu"
) -> Any:
    """Load a model the way CLIP_benchmark's loaders do: (model, transform, tokenizer). To have `model_type="saccade"` there:

    clip_benchmark.models.TYPE2FUNC["saccade"] = saccade.compat.open_clip.load_clip_benchmark
    """
    model, _, transform = create_model_and_transforms(model_name)
    return model, transform, get_tokenizer(model)
