"""Fixtures: the starter model, small pictures, and a home of their own for what the library remembers."""

import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path

# Before the library looks: caches and state of the person who runs the tests are not touched.
_home = tempfile.TemporaryDirectory(prefix="saccade-tests-")
for _name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
    os.environ[_name] = _home.name
os.environ["OMP_WAIT_POLICY"] = "passive"

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from PIL import Image  # noqa: E402

import saccade  # noqa: E402

ROOT = Path(os.environ.get("SACCADE_SOURCE", Path(__file__).resolve().parents[2]))
LAB = os.environ.get("SACCADE_LAB_PROGRAM", str(ROOT / "build/release/bin/saccade-lab"))
COLORS = {"red": (220, 20, 20), "green": (20, 200, 40), "blue": (20, 40, 220), "yellow": (230, 220, 30)}


def golden(name: str) -> Path:
    return ROOT / "tests" / "golden" / name


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    types = {"F32": np.float32, "I64": np.int64, "U8": np.uint8}
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + at for at in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def laboratory(what: str, model: str, run: Path, *arguments) -> dict:
    """The figures of that model of `saccade-lab eval WHAT`, which writes the folder `run`."""
    if not os.access(LAB, os.X_OK):
        pytest.skip(f"{LAB} is not installed")
    command = [LAB, "eval", what, *map(str, arguments), "-o", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((run / "metrics.json").read_text())["results"]
    (found,) = (result for result in results if result["model"] == model)
    return found


def laboratory_on(what: str, images, captions, folder: Path, *arguments) -> dict:
    """The starter model's figures of `saccade-lab eval WHAT` on Pillow images, each with its list of captions."""
    folder.mkdir()
    for number, (image, texts) in enumerate(zip(images, captions, strict=True)):
        image.save(folder / f"{number:02}.png")
        with open(folder / "dataset.jsonl", "a", encoding="utf-8") as file:
            print(json.dumps({"image": f"{number:02}.png", "captions": texts}), file=file)
    dataset = "-m", ROOT / "models/starter", "--dataset", folder / "dataset.jsonl"
    return laboratory(what, "starter", folder / "run", *dataset, "--resamples", 0, *arguments)


def picture(color: str, width: int = 60, height: int = 40) -> np.ndarray:
    """A colored square with a darker corner, uint8 [height, width, 3]."""
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:] = COLORS[color]
    pixels[: height // 3, : width // 3] //= 2
    return pixels


@pytest.fixture(scope="session")
def starter() -> Path:
    return ROOT / "models" / "starter"


@pytest.fixture(scope="session")
def model(starter) -> saccade.Encoder:
    return saccade.load(starter, threads=2)


@pytest.fixture
def pictures(tmp_path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for color in COLORS:
        Image.fromarray(picture(color)).save(folder / f"{color}.png")
    return folder


@pytest.fixture
def photos(starter, pictures, tmp_path) -> saccade.Engine:
    engine = saccade.open(tmp_path / "photos.saccade", encoder=starter)
    assert engine.index(pictures).added == len(COLORS)
    return engine
