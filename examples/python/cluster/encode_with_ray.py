"""Encodes a folder of WebDataset shards on a Ray cluster: encode_with_ray.py SHARDS MODEL OUT [WORKERS]

Writes Parquet files with a key (SHARD/NAME), an embedding and, for an image that could not be read, an error. Ray replaces a
worker that dies and encodes its batches again.
"""

import sys
from pathlib import Path

import numpy as np
import ray

import saccade

IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".tif"}


def column_of(name: str) -> str:
    """Renames a shard's image so that its column is "image"."""
    path = Path(name)
    return str(path.with_name(path.name.partition(".")[0] + ".image")) if path.suffix.lower() in IMAGES else name


class Encode:
    """Loads the model once for each worker, which computes on one thread."""

    def __init__(self, model: str) -> None:
        self.model = saccade.load(model, threads=1)

    def __call__(self, batch: dict) -> dict:
        rows, skipped = self.model.encode_images(list(batch["image"]), errors="skip")
        errors = {one.index: str(one.error) for one in skipped}
        read = iter(rows)
        nothing = np.zeros(self.model.dim, np.float32)
        count = len(batch["image"])
        keys = [f"{Path(path).name}/{key}" for path, key in zip(batch["path"], batch["__key__"])]
        embeddings = np.stack([nothing if n in errors else next(read) for n in range(count)])
        return {"key": np.array(keys), "embedding": embeddings, "error": np.array([errors.get(n, "") for n in range(count)])}


if len(sys.argv) < 4:
    sys.exit(__doc__)
shards, model, out = sys.argv[1:4]
little = {"num_cpus": 0.2}  # for tasks that read and write, so that workers leave them a processor's share
select = {"filerename": column_of, "fileselect": lambda name: name.endswith(".image"), "decoder": None}
images = ray.data.read_webdataset(shards, include_paths=True, **select, **little)
pool = ray.data.ActorPoolStrategy(min_size=1, max_size=int(sys.argv[4]) if len(sys.argv) > 4 else 2)
images.map_batches(
    Encode, fn_constructor_args=[model], batch_size=32, compute=pool, num_cpus=0.8
).write_parquet(out, ray_remote_args=little)
