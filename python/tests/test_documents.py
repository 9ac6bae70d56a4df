"""The code of docs/python.md and examples/python, as it stands there."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import COLORS, ROOT, picture
from PIL import Image

EXAMPLES = ROOT / "examples" / "python"


def test_blocks_of_the_page(tmp_path, monkeypatch):
    """All blocks, one after the other, in one module; in a folder with the pictures that they name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "Pictures").mkdir()
    for number, color in enumerate(COLORS):
        Image.fromarray(picture(color, 120, 90 + number)).save(tmp_path / "Pictures" / f"{color}.jpg")
    Image.fromarray(picture("red")).save("a.jpg")
    Image.fromarray(picture("blue")).save("b.png")
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert names["images"].shape == (2, names["model"].dim) and names["indices"].shape == (2, 2)
    assert names["report"].added == 4 and len(names["rows"]) == 1


def run(name, *arguments, **options):
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, **options).stdout


def test_examples_are_short():
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert len(scripts) == 5
    assert all(len(script.read_text().splitlines()) <= 40 for script in scripts)


def test_examples(starter, pictures, tmp_path):
    told = run("encode_and_compare.py", starter, pictures / "red.png", "--", "a red square", "a bell")
    assert told.startswith(str(pictures / "red.png")) and told.count("\n") == 1
    environment = {**os.environ, "SACCADE_STARTER": str(starter)}
    told = run("index_and_search.py", tmp_path / "c", pictures, "red", env=environment)
    assert len(told.splitlines()) == 4 and "red.png" in told.splitlines()[0]
    assert run("top_k.py").startswith("row 7  ")
    np.save(tmp_path / "rows.npy", np.eye(9, dtype=np.float32))
    assert run("top_k.py", tmp_path / "rows.npy").startswith("row 7  1.000")
    lines = [f"{color}.png\ta {color} square" for color in COLORS] + ["red.png\tred paint"]
    (pictures / "pairs.tsv").write_text("\n".join(lines) + "\n")
    told = run("evaluate.py", starter, pictures / "pairs.tsv")
    assert "median_rank" in told and told.endswith("0 of 5 captions are longer than the model reads\n")
    assert run("duplicates.py", tmp_path / "c", 0.99999) == ""
    assert len(run("duplicates.py", tmp_path / "c", -1).splitlines()) == 6


def test_a_missing_argument_is_said():
    with pytest.raises(subprocess.CalledProcessError) as raised:
        run("encode_and_compare.py")
    assert "MODEL IMAGE" in raised.value.stderr
