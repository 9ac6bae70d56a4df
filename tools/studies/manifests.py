#!/usr/bin/env python3
"""Makes data of the studies from data sets that their users bring.

    python3 manifests.py ucm-classes --ucm DIR --out FILE       UCM-Captions with the archive's 21 classes as groups
    python3 manifests.py flickr8k --flickr8k DIR --out FILE     Flickr8k's captions of the photographs that are there
    python3 manifests.py objects --ratings FILE --out FILE      words of Brysbaert's table rated --least (4.5) or more, one a line

The first two write manifests (docs/datasets.md). DIR of UCM-Captions holds dataset.json (Karpathy's layout) and images/, DIR of
Flickr8k captions.csv (image_id, caption) and images/.
"""
import argparse
import csv
import json
import pathlib
import sys


def ucm_classes(folder):
    """Image n is of class (n - 1) / 100: the archive has 100 images of each, one class after the other."""
    for image in json.loads((folder / "dataset.json").read_text())["images"]:
        number = int(pathlib.PurePath(image["filename"]).stem)
        yield {"id": image["filename"], "image": str((folder / "images" / image["filename"]).resolve()),
               "captions": [sentence["raw"] for sentence in image["sentences"]],
               "group": f"class {(number - 1) // 100 + 1}", "split": image["split"]}


def flickr8k(folder):
    captions = {}
    with open(folder / "captions.csv", newline="") as lines:
        for line in csv.DictReader(lines):
            captions.setdefault(line["image_id"], []).append(line["caption"])
    for name, texts in captions.items():
        image = folder / "images" / name
        if image.is_file():
            yield {"id": name, "image": str(image.resolve()), "captions": texts}


def objects(ratings, least):
    with open(ratings, newline="") as lines:
        for line in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            if float(line["Conc.M"]) >= least:
                yield line["Word"]


def main(words):
    parser = argparse.ArgumentParser(prog="manifests.py", description=__doc__.split("\n")[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, source in (("ucm-classes", "--ucm"), ("flickr8k", "--flickr8k"), ("objects", "--ratings")):
        command = kinds.add_parser(kind)
        command.add_argument(source, dest="source", type=pathlib.Path, required=True)
        command.add_argument("--out", type=pathlib.Path, required=True)
        if kind == "objects":
            command.add_argument("--least", type=float, default=4.5)
    given = parser.parse_args(words)
    if given.kind == "objects":
        lines = list(objects(given.source, given.least))
    else:
        made = {"ucm-classes": ucm_classes, "flickr8k": flickr8k}[given.kind](given.source)
        lines = [json.dumps(record) for record in made]
    if not lines:
        print(f"manifests: {given.source}: nothing was found", file=sys.stderr)
        return 1
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
