#!/usr/bin/env python3
"""Draws a share of the edit queries to train on: whole groups, that is objects, until there are enough queries.

    python3 share.py --edits FILE --out FILE [--split train] [--queries 4000] [--seed 1]

Reads and writes the JSONL of docs/datasets.md with edit queries. Of the images it keeps those that the drawn queries name.
"""
import argparse
import json
import pathlib
import random
import sys


def drawn(lines, split, queries, seed):
    """The lines of the drawn queries and of their images, in the order of `lines`."""
    groups = {}
    for line in lines:
        if line.get("split") == split and "reference" in line:
            groups.setdefault(line["group"], []).append(line["id"])
    names = sorted(groups)
    random.Random(seed).shuffle(names)
    kept = set()
    for name in names:
        if len(kept) >= queries:
            break
        kept.update(groups[name])
    used = set()
    for line in lines:
        if "reference" in line and line["id"] in kept:
            used.update([line["reference"], *line["targets"]])
    return [line for line in lines if line["id"] in (kept if "reference" in line else used)]


def main(words):
    parser = argparse.ArgumentParser(prog="share.py", description=__doc__.split("\n")[0])
    parser.add_argument("--edits", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--split", default="train")
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    lines = drawn([json.loads(line) for line in given.edits.read_text().splitlines()], given.split, given.queries, given.seed)
    if not lines:
        print(f"share: {given.edits}: no edit query of the split {given.split}", file=sys.stderr)
        return 1
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
