"""Uses an installed Saccade as its user would, where nothing else is: try_wheel.py PICTURES HOSTILE

Encodes, indexes and searches, and has hostile files read. Prints what it saw; exit code 1 if something is wrong.
"""

import pathlib
import subprocess
import sys
import time

import numpy as np

import saccade

pictures, hostile = (pathlib.Path(folder) for folder in sys.argv[1:])
files = sorted(pictures.iterdir())
model = saccade.load("starter")
rows = model.encode_images(files)
texts = model.encode_texts(["red apple", "a page"])
assert rows.shape == (len(files), model.dim) and np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
indices, scores = saccade.search(rows, texts, k=1)
assert np.allclose(scores[:, 0], (texts @ rows.T).max(axis=1), atol=1e-6)
print(f"{len(files)} images and {len(texts)} texts encoded and searched, {model.precision}")

photos = saccade.open("photos.saccade")
assert photos.index(pictures).added == len(files)
assert photos.search("red apple", k=1)[0].path
formats = sorted({image.format for image in photos.images()})
print(f"indexed: {len(photos)} images of the formats {', '.join(formats)}")
assert len(formats) >= 8

began = time.monotonic()
report = photos.index(hostile)
attackers = sorted(hostile.iterdir())
for failed in report.failed:
    print(f"  {pathlib.Path(failed.path).name}: {type(failed.error).__name__}: {str(failed.error)[:120]}")
print(f"{len(attackers)} hostile files: {len(report.failed)} refused, {report.added} read, {time.monotonic() - began:.1f} s")
assert report.seen == len(attackers) and len(report.failed) + report.added == len(attackers) and len(report.failed) >= 25
assert not any("root:" in image.caption for image in photos.images())
assert len(photos.search("red apple", k=1)) == 1

decoder = pathlib.Path(saccade.__file__).parent / "libexec" / "saccade" / "saccade-decode"
if not decoder.exists():
    decoder = pathlib.Path("/usr/libexec/saccade/saccade-decode")
told = subprocess.run([decoder], capture_output=True, text=True, check=False).stderr.splitlines()[-1]
print(told)
assert "system calls" in told or "seccomp" in told.lower(), told
