#!/usr/bin/env python3
"""Figures of composed search, counted by sorting: what `saccade eval composed --embeddings` is checked against.

Reads the published files by itself (Fashion-IQ's, CIRR's or CIRCO's captions file, whose name tells the others) and rows in
the form of --embeddings, and prints the figures as JSON. With --make, writes rows drawn from a seed instead, each query's
leaning towards its target so that the figures are neither 0 nor 1. Needs numpy and safetensors.

  composed.py --make rows.safetensors --dataset fashion_iq/captions/cap.dress.val.json
  composed.py --rows rows.safetensors --dataset fashion_iq/captions/cap.dress.val.json [--union] [--remove-reference]
"""
import argparse
import json
import pathlib

import numpy as np
from safetensors.numpy import load_file, save_file


def read(path):
    """-> layout, names of the gallery, queries of (reference, targets, subset)"""
    path = pathlib.Path(path)
    records = json.loads(path.read_text())
    split = path.parent.parent / "image_splits" / path.name.replace("cap.", "split.", 1)
    if "candidate" in records[0]:
        queries = [(r["candidate"], [r["target"]], None) for r in records]
        return "fashion_iq", json.loads(split.read_text()), queries
    if "pairid" in records[0]:
        queries = [(r["reference"], [r["target_hard"]], r["img_set"]["members"]) for r in records]
        return "cirr", list(json.loads(split.read_text())), queries
    corpus = path.parent.parent / "COCO2017_unlabeled/annotations/image_info_unlabeled2017.json"
    names = [str(i["id"]) for i in json.loads(corpus.read_text())["images"]]
    queries = [(str(r["reference_img_id"]), [str(r["target_img_id"])] + [str(t) for t in r["gt_img_ids"] if t != r["target_img_id"]],
                None) for r in records]
    return "circo", names, queries


def make(path, names, queries, seed, dim=64):
    random = np.random.default_rng(seed)
    gallery = random.standard_normal((len(names), dim)).astype(np.float32)
    place = {name: i for i, name in enumerate(names)}
    rows = np.stack([gallery[place[q[1][0]]] + gallery[place[q[0]]] + 1.6 * random.standard_normal(dim) for q in queries])
    save_file({"query_embeds": rows.astype(np.float32), "gallery_embeds": gallery}, path)


def count(layout, names, queries, query_rows, gallery_rows, union, remove):
    unit = lambda rows: rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    query_rows, gallery_rows = unit(query_rows), unit(gallery_rows)
    kept = np.ones(len(names), bool)
    if union:
        used = {q[0] for q in queries} | {t for q in queries for t in q[1]}
        kept = np.array([name in used for name in names])
    names = np.array(names)[kept]
    gallery_rows = gallery_rows[kept]
    figures = {}
    add = lambda name, value: figures.setdefault(name, []).append(float(value))
    for row, (reference, targets, subset) in zip(query_rows, queries):
        order = names[np.argsort(-(gallery_rows @ row), kind="stable")]
        if not remove:
            add("reference1", order[0] == reference)
        else:
            order = order[order != reference]
        right = np.isin(order, targets)
        recall = order == targets[0] if layout == "circo" else right
        for k in (1, 5, 10, 50):
            add(f"r{k}", recall[:k].any())
        precision = np.cumsum(right) * right / np.arange(1, len(order) + 1)
        for k in (5, 10, 25, 50):
            add(f"map{k}", precision[:k].sum() / min(len(targets), k))
        if subset is None:
            continue
        members = order[np.isin(order, subset) & (order != reference)]
        for k in (1, 2, 3):
            add(f"r_subset{k}", np.isin(members[:k], targets).any())
    means = {name: sum(values) / len(values) for name, values in figures.items()}
    if "r_subset1" in means:
        means["mean_r5_r_subset1"] = (means["r5"] + means["r_subset1"]) / 2
    if layout == "fashion_iq":
        means["mean_r10_r50"] = (means["r10"] + means["r50"]) / 2
    return means


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--make")
    parser.add_argument("--rows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--union", action="store_true")
    parser.add_argument("--remove-reference", action="store_true")
    arguments = parser.parse_args()
    layout, names, queries = read(arguments.dataset)
    if arguments.make:
        make(arguments.make, names, queries, arguments.seed)
        return
    rows = load_file(arguments.rows)
    remove = arguments.remove_reference or layout == "cirr"
    print(json.dumps(count(layout, names, queries, rows["query_embeds"], rows["gallery_embeds"], arguments.union, remove), indent=1))


if __name__ == "__main__":
    main()
