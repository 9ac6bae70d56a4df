"""Lists images that look the same: duplicates.py COLLECTION [COSINE]"""

import sys

import numpy as np

import saccade

if len(sys.argv) < 2:
    sys.exit(__doc__)
least = float(sys.argv[2]) if len(sys.argv) > 2 else 0.98
photos = saccade.open(sys.argv[1], create=False)
rows, ids = photos.embeddings, photos.ids
paths = {image.id: image.path for image in photos.images()}
here = np.flatnonzero(ids)
for start in range(0, len(here), 1000):  # a thousand queries at a time
    asked = here[start : start + 1000]
    indices, scores = saccade.search(rows, rows[asked], k=min(5, len(here)), allowed=ids != 0)
    for row, found, cosines in zip(asked, indices, scores):
        for other, cosine in zip(found, cosines):
            if other > row and cosine >= least:
                print(f"{cosine:.4f}\t{paths[ids[row]]}\t{paths[ids[other]]}")
