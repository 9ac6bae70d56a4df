#!/usr/bin/env python3
r"""Figures of the seven-model benchmark's own program: the reference of `--protocol seven-models` and of `eval winoground`.

The program is github.com/sariekr/multimodal-embedding, run_benchmark_grand_slam_v28_publication_ready.py. Its functions are
taken from a copy of that file and run as they are, over NumPy in place of PyTorch:

  compute_metrics        on scores of 24 images with five captions each: text to image of the first captions, image to text
                         among all
  run_winoground's ifs   on scores of 60 items, some of them tied

Writes seven_models.safetensors (scores [texts, images] and text_image as `eval retrieval --scores` reads them; compositions
[items, 2, 2]) and seven_models.json (the program's own columns).

  python3 tools/reference/seven_models.py PROGRAM.py --out tests/golden/retrieval
"""

import argparse
import ast
import json
import pathlib
import types

import numpy as np

from retrieval import write_safetensors

IMAGES, CAPTIONS, ITEMS = 24, 5, 60


class Scores:
    """What the program asks of a tensor."""

    def __init__(self, values):
        self.values = values

    def size(self, dim):
        return self.values.shape[dim]

    def __getitem__(self, key):
        value = self.values[key]
        return Scores(value) if isinstance(value, np.ndarray) else value


def topk(row, k):
    order = np.argsort(-row.values, kind="stable")[:k]
    return types.SimpleNamespace(indices=order)


def function(tree, name):
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)


def retrieval_columns(tree, scores, text_image):
    module = ast.Module([function(tree, "compute_metrics")], [])
    torch = types.SimpleNamespace(topk=topk, Tensor=object)
    names = {"torch": torch}
    exec("from typing import Dict, List", names)
    exec(compile(module, "compute_metrics", "exec"), names)
    first = [int(np.flatnonzero(text_image == i)[0]) for i in range(IMAGES)]
    own = {i: np.flatnonzero(text_image == i).tolist() for i in range(IMAGES)}
    return names["compute_metrics"](Scores(scores[first]), Scores(scores.T), list(range(IMAGES)), own)


def winoground_columns(tree, items):
    """Runs the three ifs that count, in the program's order."""
    counted = [node for node in ast.walk(function(tree, "run_winoground"))
               if isinstance(node, ast.If) and any(isinstance(each, ast.AugAssign) for each in node.body)]
    code = compile(ast.Module(counted, []), "run_winoground", "exec")
    names = {"text_score": 0, "image_score": 0, "group_score": 0}
    for scores in items:
        names["s"] = scores
        exec(code, names)
    return {f"Wino {kind.capitalize()}": 100.0 * names[f"{kind}_score"] / len(items)
            for kind in ("text", "image", "group")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    tree = ast.parse(arguments.program.read_text())
    random = np.random.default_rng(28)
    text_image = np.repeat(np.arange(IMAGES, dtype=np.int64), CAPTIONS)
    scores = random.normal(size=(IMAGES * CAPTIONS, IMAGES)).astype(np.float32)
    scores[np.arange(len(text_image)), text_image] += 1.2
    # Texts score higher with their image more often than the other way, so that the two columns differ.
    items = random.normal(size=(ITEMS, 2, 2)).astype(np.float32)
    items[:, 0, 0] += 0.4
    items[:, :, 1] += 0.8
    items[::9] = np.round(items[::9])
    write_safetensors(arguments.out / "seven_models.safetensors",
                      {"scores": scores, "text_image": text_image, "compositions": items})
    columns = retrieval_columns(tree, scores, text_image) | winoground_columns(tree, items)
    (arguments.out / "seven_models.json").write_text(json.dumps(columns, indent=1) + "\n")


if __name__ == "__main__":
    main()
