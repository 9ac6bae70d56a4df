"""Measures retrieval with intervals: evaluate.py MODEL PAIRS.tsv, where each line has an image, a tab and its caption."""

import sys
from pathlib import Path

import saccade

if len(sys.argv) != 3:
    sys.exit(__doc__)
folder = Path(sys.argv[2]).parent
files, captions, owners = [], [], []
for line in Path(sys.argv[2]).read_text(encoding="utf-8").splitlines():
    name, caption = line.split("\t")
    if folder / name not in files:
        files.append(folder / name)
    captions.append(caption)
    owners.append(files.index(folder / name))
model = saccade.load(sys.argv[1])
images = model.encode_images(files, progress=True)
texts = model.encode_texts(captions, progress=True)
cut = (model.tokens(captions).dropped > 0).sum()
print(saccade.metrics.retrieval(images, texts, owners))
print(f"{cut} of {len(captions)} captions are longer than the model reads")
