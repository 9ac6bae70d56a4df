#!/usr/bin/env python3
r"""Retrieval figures as evaluations in Python compute them: the reference of `saccade eval retrieval`.

Two sets, each a safetensors file that --embeddings takes and an object of figures in figures.json:

  unit.safetensors     rows of length 1 with five to seven texts a picture. Ranked as published benchmarks do:
                       scores.argsort in descending order, text to image over all texts and over each picture's
                       first one (one right picture), image to text over all texts (a hit if any of the
                       picture's own is among the first k). No score of a right answer is nearer than MARGIN to
                       another answer's, so that no order of summation can change a rank.
  whole.safetensors    small whole numbers, whose dot products are exact and often equal. Ranked with every
                       wrong answer of an equal score before the right one (pessimistic), and behind it
                       (optimistic), by sorting each query's list.

Needs numpy:

  python3 tools/reference/retrieval.py --out tests/golden/retrieval
"""

import argparse
import json
import pathlib
import struct

import numpy as np

MARGIN = 2e-6
KS = (1, 5, 10)


def write_safetensors(path, tensors):
    names = {np.dtype(np.float32): "F32", np.dtype(np.int64): "I64"}
    header, data = {}, b""
    for name, array in tensors.items():
        blob = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def figures_of_lists(lists):
    """lists: for each query (the order of all answers, its right answers)."""
    out = {}
    firsts, mrr, ndcg, precision = [], [], [], []
    hits = {k: [] for k in KS}
    recalls = {k: [] for k in KS}
    for order, right in lists:
        right = set(right)
        ranks = [place + 1 for place, answer in enumerate(order) if answer in right]
        firsts.append(ranks[0])
        mrr.append(1.0 / ranks[0])
        for k in KS:
            top = order[:k]
            hits[k].append(any(answer in right for answer in top))
            recalls[k].append(sum(answer in right for answer in top) / len(right))
        gains = sum(1 / np.log2(1 + rank) for rank in ranks if rank <= 10)
        ideal = sum(1 / np.log2(1 + rank) for rank in range(1, min(10, len(right)) + 1))
        ndcg.append(gains / ideal)
        precision.append(np.mean([(found + 1) / rank for found, rank in enumerate(ranks)]))
    for k in KS:
        out[f"r{k}"] = float(np.mean(hits[k]))
        out[f"recall{k}"] = float(np.mean(recalls[k]))
    out["mrr"] = float(np.mean(mrr))
    out["ndcg10"] = float(np.mean(ndcg))
    out["map"] = float(np.mean(precision))
    out["mean_rank"] = float(np.mean(firsts))
    out["median_rank"] = float(np.median(firsts))
    out["queries"] = len(lists)
    return out


def benchmark(images, texts, text_image):
    """The benchmarks' own loop: one matrix, argsort, the right one among the first k."""
    scores = texts @ images.T
    valid = [np.flatnonzero(text_image == i).tolist() for i in range(len(images))]
    t2i = scores.argsort(axis=1, kind="stable")[:, ::-1]
    i2t = scores.T.argsort(axis=1, kind="stable")[:, ::-1]
    first = [own[0] for own in valid]
    return {
        "all": {"t2i": figures_of_lists([(t2i[t].tolist(), [text_image[t]]) for t in range(len(texts))]),
                "i2t": figures_of_lists([(i2t[i].tolist(), valid[i]) for i in range(len(images))])},
        # Image to text is over the first captions alone.
        "first1": {"t2i": figures_of_lists([(t2i[t].tolist(), [text_image[t]]) for t in first]),
                   "i2t": figures_of_lists([([first.index(t) for t in i2t[i].tolist() if t in set(first)], [i])
                                            for i in range(len(images))])},
    }


def margin(images, texts, text_image):
    exact = texts.astype(np.float64) @ images.astype(np.float64).T
    least = np.inf
    for scores, right in ((exact, lambda q: [text_image[q]]),
                          (exact.T, lambda q: np.flatnonzero(text_image == q))):
        for q, row in enumerate(scores):
            for answer in right(q):
                others = np.delete(row, answer)
                least = min(least, np.abs(others - row[answer]).min())
    return least


def unit_set():
    for seed in range(1000):
        random = np.random.default_rng(seed)
        n, dim = 40, 24
        counts = random.choice([5, 5, 5, 6, 7], n)
        text_image = np.repeat(np.arange(n), counts)
        images = random.normal(size=(n, dim))
        texts = images[text_image] + 1.6 * random.normal(size=(len(text_image), dim))
        images /= np.linalg.norm(images, axis=1, keepdims=True)
        texts /= np.linalg.norm(texts, axis=1, keepdims=True)
        images, texts = images.astype(np.float32), texts.astype(np.float32)
        if margin(images, texts, text_image) > MARGIN:
            return images, texts, text_image.astype(np.int64)
    raise SystemExit("no seed gives scores that far apart")


def tied(images, texts, text_image):
    scores = texts @ images.T
    result = {}
    for policy, right_first in (("pessimistic", False), ("optimistic", True)):
        both = {}
        for direction, matrix in (("t2i", scores), ("i2t", scores.T)):
            lists = []
            for q, row in enumerate(matrix):
                right = [text_image[q]] if direction == "t2i" else np.flatnonzero(text_image == q).tolist()
                own = np.zeros(len(row))
                own[right] = 1
                order = sorted(range(len(row)), key=lambda a: (-row[a], -own[a] if right_first else own[a]))
                lists.append((order, right))
            both[direction] = figures_of_lists(lists)
        result[policy] = both
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    images, texts, text_image = unit_set()
    write_safetensors(out / "unit.safetensors",
                      {"image_embeds": images, "text_embeds": texts, "text_image": text_image})
    figures = {"unit": benchmark(images, texts, text_image)}
    random = np.random.default_rng(5)
    text_image = np.concatenate([np.arange(30), random.integers(0, 30, 90)]).astype(np.int64)
    images = random.integers(-2, 3, (30, 6)).astype(np.float32)
    texts = (images[text_image] + random.integers(-1, 2, (120, 6))).astype(np.float32)
    write_safetensors(out / "whole.safetensors",
                      {"image_embeds": images, "text_embeds": texts, "text_image": text_image})
    figures["whole"] = tied(images, texts, text_image)
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
