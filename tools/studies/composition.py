#!/usr/bin/env python3
"""Makes a test of composition from UCM-Captions' test split: in each pair of captions one word was replaced.

    python3 composition.py --ucm DIR --out FILE

Writes SugarCrepe's JSON (docs/datasets.md), whose pairs are of one kind, FILE's name. DIR holds UCM-Captions' dataset.json and
images/. For each different caption of an image and each list of words below, the first word of that list is replaced by one that
no caption of the image has, in singular or plural. Which one is decided by the number of pairs before, so that the same
captions give the same pairs.
"""
import argparse
import json
import pathlib
import re
import sys

# Colours, numbers, and names of the archive's classes.
LISTS = (
    ("white", "green", "grey", "blue", "black", "orange", "red", "brown", "purple", "beige"),
    ("two", "three", "four", "five", "six", "seven", "eight"),
    ("farmland", "airplane", "baseball diamond", "beach", "chaparral", "dense residential area", "forest", "freeway", "golf course",
     "harbor", "intersection", "medium residential area", "mobile home park", "overpass", "parking lot", "river", "runway",
     "sparse residential area", "storage tank", "tennis court"),
    ("airplanes", "baseball diamonds", "buildings", "freeways", "parking lots", "rivers", "runways", "storage tanks",
     "tennis courts"))


def replaced(caption, found, word):
    """The caption with another word in place of the one that was found. Its article and its capital are fitted."""
    before = caption[:found.start()]
    article = re.search(r"\b([Aa])n? $", before)
    if article:
        before = before[:article.start()] + article.group(1) + ("n " if word[0] in "aeiou" else " ")
    return before + (word.capitalize() if found.group()[0].isupper() else word) + caption[found.end():]


def pairs_of(images):
    """The pairs of the test split, in the order of images and captions."""
    pairs = []
    for image in images:
        captions = list(dict.fromkeys(sentence["raw"] for sentence in image["sentences"]))
        for caption in captions if image["split"] == "test" else ():
            for words in LISTS:
                found = re.search(rf"\b({'|'.join(words)})\b", caption, re.IGNORECASE)
                others = [word for word in words
                          if not re.search(rf"\b{word.removesuffix('s')}s?\b", "\n".join(captions), re.IGNORECASE)]
                if found and others:
                    pairs.append({"filename": image["filename"], "caption": caption,
                                  "negative_caption": replaced(caption, found, others[len(pairs) % len(others)])})
    return pairs


def main(words):
    parser = argparse.ArgumentParser(prog="composition.py", description=__doc__.split("\n")[0])
    parser.add_argument("--ucm", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    given = parser.parse_args(words)
    pairs = pairs_of(json.loads((given.ucm / "dataset.json").read_text())["images"])
    if not pairs:
        print(f"composition: {given.ucm}: nothing was found", file=sys.stderr)
        return 1
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(dict(enumerate(pairs)), indent=4) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
