"""Saccade as embeddings of LangChain. Needs langchain-core.

store = InMemoryVectorStore(SaccadeEmbeddings("openai/clip-vit-base-patch32"))
"""

from __future__ import annotations

from typing import Any

from langchain_core.embeddings import Embeddings

from .. import _encoder
from .._images import ImageLike


class SaccadeEmbeddings(Embeddings):
    """Texts and images as vectors of one space, each a list of floats of length 1."""

    def __init__(self, model: str | _encoder.Encoder = "starter", **options: Any) -> None:
        """`model` is what `saccade.load` takes, with its options, or a loaded one."""
        self.encoder = model if isinstance(model, _encoder.Encoder) else _encoder.load(model, **options)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.encoder.encode_texts(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.encoder.encode_texts(text).tolist()

    def embed_image(self, uris: list[ImageLike]) -> list[list[float]]:
        """Embed images: paths, or whatever `Encoder.encode_images` takes. LangChain's vector stores call it for images."""
        return self.encoder.encode_images(uris).tolist()
