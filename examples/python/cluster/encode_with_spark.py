"""Encodes a folder of WebDataset shards on a Spark cluster: encode_with_spark.py SHARDS MODEL OUT [MASTER]

SHARDS and MODEL are paths that all workers see. Writes Parquet files with a key (SHARD/NAME), an embedding and, for an image
that could not be read, an error. Spark replaces a worker that dies and encodes its shards again. It keeps the files of one
attempt only, so that each image is in the result once.
"""

import sys
import tarfile
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

import saccade

IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".tif"}
AT_ONCE = 256  # images whose embeddings are held


def bytes_of(archive, member):
    file = archive.extractfile(member)
    return file.read() if file else b""


def encode(frames):
    model = saccade.load(model_path, threads=1)
    for shard in (shard for frame in frames for shard in frame["shard"]):
        with tarfile.open(shard) as archive:
            members = [member for member in archive if Path(member.name).suffix.lower() in IMAGES]
            for start in range(0, len(members), AT_ONCE):
                part = members[start : start + AT_ONCE]
                rows, skipped = model.encode_images((bytes_of(archive, one) for one in part), errors="skip")
                errors = {one.index: str(one.error) for one in skipped}
                read = iter(rows.tolist())
                keys = [f"{Path(shard).name}/{one.name.removeprefix('./').partition('.')[0]}" for one in part]
                embeddings = [[] if n in errors else next(read) for n in range(len(part))]
                told = [errors.get(n, "") for n in range(len(part))]
                yield pd.DataFrame({"key": keys, "embedding": embeddings, "error": told})


if len(sys.argv) < 4:
    sys.exit(__doc__)
shards, model_path, out = sys.argv[1:4]
spark = SparkSession.builder.master(sys.argv[4] if len(sys.argv) > 4 else "local[2,4]").getOrCreate()
found = [(str(path),) for path in sorted(Path(shards).resolve().glob("*.tar"))]
tasks = spark.createDataFrame(found, "shard string").repartition(len(found))
tasks.mapInPandas(encode, "key string, embedding array<float>, error string").write.mode("overwrite").parquet(out)
