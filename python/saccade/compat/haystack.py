"""Saccade as components of Haystack pipelines. Needs haystack-ai.

pipeline.add_component("embed", SaccadeTextEmbedder("openai/clip-vit-base-patch32"))
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from .. import _encoder


class _Embedder:
    def __init__(self, model: str = "starter", precision: str = "fp32", threads: int = 0) -> None:
        """The model is loaded by warm_up(), or by the first run()."""
        self.model, self.precision, self.threads = model, precision, threads
        self._encoder: _encoder.Encoder | None = None

    def warm_up(self) -> None:
        if self._encoder is None:
            self._encoder = _encoder.load(self.model, precision=self.precision, threads=self.threads)  # type: ignore[arg-type]

    def encoder(self) -> _encoder.Encoder:
        self.warm_up()
        assert self._encoder is not None
        return self._encoder

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self, model=self.model, precision=self.precision, threads=self.threads)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        return default_from_dict(cls, data)


@component
class SaccadeTextEmbedder(_Embedder):
    """Embeds a query's text."""

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        return {"embedding": self.encoder().encode_texts(text).tolist()}


@component
class SaccadeDocumentEmbedder(_Embedder):
    """Embeds documents by their content."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        rows = self.encoder().encode_texts([document.content or "" for document in documents])
        return {"documents": [replace(document, embedding=row.tolist()) for document, row in zip(documents, rows)]}


@component
class SaccadeDocumentImageEmbedder(_Embedder):
    """Embeds documents that are images, by the file that their metadata names."""

    def __init__(
        self, model: str = "starter", precision: str = "fp32", threads: int = 0, file_path_meta_field: str = "file_path"
    ) -> None:
        _Embedder.__init__(self, model, precision, threads)  # the decorator makes another class, without super()
        self.file_path_meta_field = file_path_meta_field

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(
            self,
            model=self.model,
            precision=self.precision,
            threads=self.threads,
            file_path_meta_field=self.file_path_meta_field,
        )

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        rows = self.encoder().encode_images([document.meta[self.file_path_meta_field] for document in documents])
        return {"documents": [replace(document, embedding=row.tolist()) for document, row in zip(documents, rows)]}
