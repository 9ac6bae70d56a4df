"""Finds the nearest rows of a matrix: exact top-k, without a model or a collection. A .npy file is searched where it lies
on disk: top_k.py [ROWS.npy]"""

import sys

import numpy as np

import saccade

if len(sys.argv) > 1:
    rows = np.load(sys.argv[1], mmap_mode="r")
else:
    rows = np.random.default_rng(1).normal(size=(100_000, 64)).astype(np.float32)
indices, scores = saccade.search(rows, rows[7], k=3)  # row 7 is nearest to itself
for index, score in zip(indices, scores):
    print(f"row {index}  {score:.3f}")
