"""The interface of sentence-transformers' `SentenceTransformer` for code that only encodes texts and images.

from saccade.compat.sentence_transformers import SentenceTransformer

model = SentenceTransformer("openai/clip-vit-base-patch32")
embeddings = model.encode(["two birds on a branch", Image.open("a.jpg")])
model.similarity(embeddings, embeddings)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _encoder


class SentenceTransformer:
    """A Saccade model as sentence-transformers calls one. Strings are texts, all else is images."""

    def __init__(self, model_name_or_path: str, *, precision: str = "fp32", threads: int = 0, **_: Any) -> None:
        self.encoder = _encoder.load(model_name_or_path, precision=precision, threads=threads)  # type: ignore[arg-type]

    @property
    def max_seq_length(self) -> int:
        return self.encoder.context

    def get_sentence_embedding_dimension(self) -> int:
        return self.encoder.dim

    get_embedding_dimension = get_sentence_embedding_dimension

    def encode(
        self,
        sentences: Any,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = True,
        **_: Any,
    ) -> Any:
        """Encode a text, an image or a list of both: float32 [n, dim], [dim] for one. Rows have length 1 with and without
        `normalize_embeddings`. `convert_to_tensor` gives a torch tensor, convert_to_numpy=False a list of them."""
        rows = self.encoder.encode(sentences, batch_size=batch_size, progress=bool(show_progress_bar))
        if convert_to_numpy and not convert_to_tensor:
            return rows
        import torch

        tensor = torch.from_numpy(rows)
        return tensor if convert_to_tensor or tensor.ndim == 1 else list(tensor)

    def similarity(self, left: Any, right: Any) -> Any:
        """Return the cosines of all pairs, float32 [m, n]; a torch tensor if one was given."""
        rows = [np.atleast_2d(np.asarray(values, np.float32)) for values in (left, right)]
        lengths = [np.linalg.norm(values, axis=1, keepdims=True) for values in rows]
        cosines = (rows[0] / lengths[0]) @ (rows[1] / lengths[1]).T
        if type(left).__module__.partition(".")[0] == "torch":
            import torch

            return torch.from_numpy(cosines)
        return cosines
