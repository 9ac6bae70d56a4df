"""Saccade as a multi-modal embedding model of LlamaIndex. Needs llama-index-core."""

from __future__ import annotations

from typing import Any

from llama_index.core.embeddings import MultiModalEmbedding
from pydantic import PrivateAttr

from .. import _encoder


class SaccadeEmbedding(MultiModalEmbedding):
    """Texts, queries and images as vectors of one space, each a list of floats of length 1."""

    _encoder: _encoder.Encoder = PrivateAttr()

    def __init__(
        self, model: str | _encoder.Encoder = "starter", *, embed_batch_size: int = 32, **options: Any
    ) -> None:
        """`model` is what `saccade.load` takes, or a loaded one."""
        loaded = model if isinstance(model, _encoder.Encoder) else _encoder.load(model, **options)
        super().__init__(model_name=loaded.name, embed_batch_size=embed_batch_size)
        self._encoder = loaded

    @classmethod
    def class_name(cls) -> str:
        return "SaccadeEmbedding"

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._encoder.encode_texts(text).tolist()

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._encoder.encode_texts(texts).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    def _get_image_embedding(self, img_file_path: Any) -> list[float]:
        return self._encoder.encode_images(img_file_path).tolist()

    def _get_image_embeddings(self, img_file_paths: list[Any]) -> list[list[float]]:
        return self._encoder.encode_images(img_file_paths).tolist()

    async def _aget_image_embedding(self, img_file_path: Any) -> list[float]:
        return self._get_image_embedding(img_file_path)
