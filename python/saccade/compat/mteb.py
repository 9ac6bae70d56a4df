"""Saccade as a model of MTEB, for its text, image and image-text tasks. Needs mteb.

import mteb
from saccade.compat.mteb import SaccadeModel

mteb.evaluate(SaccadeModel("openai/clip-vit-base-patch32"), mteb.get_tasks(tasks=["Flickr30kT2IRetrieval"]))
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction

from .. import _core, _encoder


class SaccadeModel(AbsEncoder):
    """A Saccade model in MTEB's encoder protocol. Inputs of texts and images together become the sum of both vectors."""

    def __init__(
        self, model_name: str = "starter", revision: str | None = None, *, device: str | None = None, **options: Any
    ) -> None:
        """`model_name` is what `saccade.load` takes, with its options; `device` is ignored."""
        named = f"{model_name}@{revision}" if revision and "/" in model_name else model_name
        self.model = _encoder.load(named, **options)
        name = self.model.name if self.model.name.count("/") == 1 else f"saccade/{self.model.name.rpartition('/')[2]}"
        self.mteb_model_meta = ModelMeta(
            loader=None,
            name=name,
            revision=revision or self.model.fingerprint[:12],
            release_date=None,
            languages=None,
            n_parameters=self.model.parameters,
            memory_usage_mb=None,
            max_tokens=self.model.context,
            embed_dim=self.model.dim,
            license=None,
            open_weights=True,
            public_training_code=None,
            public_training_data=None,
            framework=[],
            similarity_fn_name=ScoringFunction.COSINE,
            use_instructions=False,
            training_datasets=None,
            modalities=(["text"] if self.model.reads_texts else []) + (["image"] if self.model.image_size[0] else []),
            experiment_kwargs={"saccade": _core.version, "precision": self.model.precision},
        )

    def encode(
        self,
        inputs: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        batch_size: int = 32,
        **_: Any,
    ) -> np.ndarray:
        """Encode a loader's batches: float32 [n, dim]."""
        parts = []
        for batch in inputs:
            rows = []
            if "text" in batch:
                rows.append(self.model.encode_texts(batch["text"], batch_size=batch_size))
            if "image" in batch:
                rows.append(self.model.encode_images(batch["image"], batch_size=batch_size))
            if not rows:
                raise ValueError(f"a batch of {sorted(batch)}, expected text or image")
            parts.append(sum(rows[1:], rows[0]))
        return np.concatenate(parts) if parts else np.empty((0, self.model.dim), np.float32)
