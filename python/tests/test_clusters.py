"""The cluster examples on several processes of this machine. One is killed at work, and nothing is lost or doubled."""

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, picture
from PIL import Image

EXAMPLES = ROOT / "examples" / "python" / "cluster"
SHARDS, IMAGES = 6, 60


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Six tar files of sixty images each, one of them broken, and their keys."""
    folder = tmp_path_factory.mktemp("shards")
    noise = np.random.default_rng(7)
    images = {}
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:03}.tar", "w") as archive:
            for number in range(IMAGES):
                pixels = np.clip(picture("red", 400, 300).astype(int) + noise.integers(-40, 40, (300, 400, 3)), 0, 255)
                data = io.BytesIO()
                Image.fromarray(pixels.astype(np.uint8)).save(data, "JPEG")
                content = b"no image" if (shard, number) == (2, 5) else data.getvalue()
                member = tarfile.TarInfo(f"{number:04}.jpg")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
                images[f"{shard:03}.tar/{number:04}"] = content
    return folder, images


def encoding_below(ancestor: int) -> list[int]:
    """Processes below an ancestor that have decoders of their own: they have loaded the model and read images."""
    parents, decoders = {}, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            parents[int(entry.name)] = int(rest.split()[1])
            if name.startswith("saccade-decode"):
                decoders.append(int(entry.name))
    found = []
    for decoder in decoders:
        above = parents[decoder]
        while above in parents and above != ancestor:
            above = parents[above]
        if above == ancestor:
            found.append(parents[decoder])
    return found


def run_and_kill(script, *arguments):
    """Runs an example, kills the first process below it that encodes, and lets the rest end."""
    began = time.monotonic()
    environment = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    environment["RAY_worker_niceness"] = "0"  # by default workers starve beside other work
    environment["PYSPARK_PYTHON"] = sys.executable
    command = [sys.executable, EXAMPLES / script, *map(str, arguments)]
    with open(os.path.join(os.environ["HOME"], f"{script}.log"), "w+") as log:
        with subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment) as process:
            killed = None
            while process.poll() is None and time.monotonic() < began + 600:
                if killed is None:
                    working = encoding_below(process.pid)
                    if working:
                        time.sleep(0.3)
                        os.kill(working[0], signal.SIGKILL)
                        killed = working[0]
                time.sleep(0.05)
            if process.poll() is None:
                process.kill()
        log.seek(0)
        told = log.read()
    assert process.returncode == 0, told[-4000:]
    assert killed is not None, told[-4000:]


def check(folder, shards, model):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = [row for file in sorted(folder.glob("*.parquet")) for row in parquet.read_table(file).to_pylist()]
    images = shards[1]
    assert sorted(row["key"] for row in rows) == sorted(images)
    bad = [row for row in rows if row["error"]]
    assert [row["key"] for row in bad] == ["002.tar/0005"]
    assert "image 5" in bad[0]["error"] or "not" in bad[0]["error"]
    for row in rows[::37]:
        if not row["error"]:
            expected = model.encode_images(images[row["key"]])
            np.testing.assert_allclose(np.array(row["embedding"], np.float32), expected, atol=1e-6)


def test_ray(shards, starter, model, tmp_path):
    pytest.importorskip("ray.data", reason="ray is not installed")
    run_and_kill("encode_with_ray.py", shards[0], starter, tmp_path / "out")
    check(tmp_path / "out", shards, model)


def test_spark(shards, starter, model, tmp_path):
    pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if not shutil.which("java"):
        pytest.skip("java, which Spark needs, is not installed")
    run_and_kill("encode_with_spark.py", shards[0], starter, tmp_path / "out", "local[2,4]")
    check(tmp_path / "out", shards, model)


def test_examples_are_short():
    assert all(len(script.read_text().splitlines()) <= 50 for script in EXAMPLES.glob("*.py"))
