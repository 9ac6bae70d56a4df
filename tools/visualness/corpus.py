#!/usr/bin/env python3
"""Texts with labels for `saccade train visualness` and `saccade eval visualness`, from packages of Debian and captions.

    ./unpack texts.txt PACKAGES
    python3 corpus.py --out DIR --packages PACKAGES --flickr8k DIR --ucm DIR [--stamps DIR] [--manuals N]

Visual are sentences that stand beside a picture: Tux Paint's stamps (apt install tuxpaint-stamps-default), captions of
Flickr8k (captions.csv with images/ beside it) and of UCM-Captions (dataset.json with images/ beside it). Non-visual are
sentences of licences (usr/share/common-licenses of the packages), of manual pages (usr/share/man), and interface strings (the
English side of usr/share/locale/*/LC_MESSAGES/*.mo). Nobody rated them: what a text is called follows from where it stands.
The same versions of the packages give the same texts; groff formats the manual pages.

A source is a corpus of captions, a licence, a package's manual pages, or a program's interface strings. No source is in
two of the sets:

    train.jsonl             stamps; half of the other sources
    validation.jsonl        UCM-Captions; a quarter
    test.jsonl              Flickr8k; a quarter
    adapt.jsonl             100 texts of test.jsonl's sources that are not in it: to choose a threshold there
    words.txt               the texts of train.jsonl and those left over from its sources, a line each, for word vectors
    bert.json               for `train visualness --config`: the shape of the smallest BERT (2 blocks, 128 wide), and
                            bert/vocab.txt, the words that words.txt has twice and all its letters

Texts are written alike, so that spelling does not tell the classes apart: white space is one space, none before a
sign, the first letter a capital, a full stop at the end. A text that two sets or both classes have is in none.
"""
import argparse
import csv
import gettext
import gzip
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys

SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")
# What is no running text: options, paths, code, addresses, placeholders.
CODE = re.compile(r"[<>{}\[\]|\\/=_*^~`@#$%+]|--|://|\.\.\.|\b\w+\(\d\w*\)|\d{4}")


def clean(text):
    text = re.sub(r"\s+", " ", text.replace("\u2010", "-").replace("\u2212", "-")).strip()
    text = re.sub(r" ([.,;:!?])", r"\1", text).rstrip(" .!?;:,")
    return text[:1].upper() + text[1:] + "." if text else ""


def usable(text):
    words = text.split()
    letters = sum(c.isalpha() or c == " " for c in text)
    return 2 <= len(words) <= 40 and letters >= 0.9 * len(text) and text.isascii() and not CODE.search(text)


def sentences(text):
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in SENTENCE.split(re.sub(r"\s+", " ", paragraph)):
            if re.match(r"^\s*[A-Z]", sentence) and re.search(r"[.!?]\s*$", sentence):
                yield sentence


def share(source):
    """train, validation or test, by the source's name alone."""
    place = hashlib.sha256(source.encode()).digest()[0] / 256
    return "train" if place < 0.5 else "validation" if place < 0.75 else "test"


def licences(packages):
    for path in sorted(packages.glob("*/usr/share/common-licenses/*")):
        if path.is_file() and not path.is_symlink():
            # Versions of one licence share sentences.
            yield "licence " + path.name.split("-")[0].lstrip("L"), path.name, sentences(path.read_text(errors="ignore"))


def page_source(page, packages, within=()):
    """A manual page with the pages that its .so lines name. These are of its package or else of another one, and never of the
    installed system. A page that is missing, or that names itself, is left out."""
    within = (*within, page.resolve())

    def named(match):
        name = match.group(1).decode(errors="ignore")
        for folder in (page.parent.parent, *sorted(packages.glob("*/usr/share/man"))):
            for file in (folder / name, folder / (name + ".gz")):
                path = file.resolve()
                if file.is_file() and path.is_relative_to(packages.resolve()) and path not in within:
                    return page_source(path, packages, within)
        return b""

    source = gzip.decompress(page.read_bytes()) if page.suffix == ".gz" else page.read_bytes()
    return re.sub(rb"^[.'][ \t]*so[ \t]+(\S+)[ \t]*$", named, source, flags=re.MULTILINE)


def manuals(packages, most, draw):
    pages = [page for page in sorted(packages.glob("*/usr/share/man/man*/*"))
             if re.search(r"\.[1578]\w*\.gz$", page.name) and page.is_file() and not page.is_symlink()]
    draw.shuffle(pages)
    seen = {}
    kept = []
    for page in pages:  # a few pages of a package, so that no package is most of it
        package = page.relative_to(packages).parts[0]
        seen[package] = seen.get(package, 0) + 1
        if seen[package] <= 5 and len(kept) < most:
            kept.append((package, page))
    for package, page in kept:
        done = subprocess.run(["man", "--no-hyphenation", "--no-justification", "--local-file", "-"],
                              input=page_source(page, packages), capture_output=True,
                              env={"MANWIDTH": "1000", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "MAN_KEEP_FORMATTING": ""})
        text = re.sub(r".\x08", "", done.stdout.decode(errors="ignore"))
        yield "manual " + package, page.name, sentences("\n\n".join(text.splitlines()))


def messages(packages):
    for path in sorted(packages.glob("*/usr/share/locale/*/LC_MESSAGES/*.mo")):
        yield path.stem, path


def interface_strings(packages, most_domains, draw):
    by_domain = {}
    for domain, path in messages(packages):
        if path.stat().st_size > by_domain.get(domain, (0, None))[0]:
            by_domain[domain] = (path.stat().st_size, path)
    domains = sorted(by_domain)
    draw.shuffle(domains)
    for domain in domains[:most_domains]:
        with by_domain[domain][1].open("rb") as file:
            try:
                catalogue = gettext.GNUTranslations(file)._catalog
            except (OSError, UnicodeDecodeError, ValueError):
                continue
        strings = [key if isinstance(key, str) else key[0] for key in catalogue]
        strings = [s.replace("_", "") for s in strings if s and "\n" not in s.strip()]
        if not domain.startswith("iso_"):  # lists of names of places
            yield "strings " + domain, domain, strings


def stamps(folder):
    for text in sorted(folder.rglob("*.txt")):
        image = next((text.with_suffix(s) for s in (".svg", ".png") if text.with_suffix(s).exists()), None)
        line = text.read_text(errors="ignore").split("\n")[0].strip()
        if image and "mirror" not in image.name and "flip" not in image.name and re.search("[a-z]", line, re.I):
            yield line, image, "stamp " + str(text.relative_to(folder).with_suffix(""))


def flickr8k(folder):
    with (folder / "captions.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            image = folder / "images" / row["image_id"]
            yield row["caption"], image if image.exists() else None, row["image_id"]


def ucm(folder):
    for image in json.loads((folder / "dataset.json").read_text())["images"]:
        for sentence in image["sentences"]:
            yield sentence["raw"], folder / "images" / image["filename"], "ucm " + image["filename"]


def write_bert(out, texts):
    """A vocabulary of whole words, and of letters for the others; the shape is BERT-tiny's (Turc et al. 2019)."""
    counts = {}
    for text in texts:
        for word in re.findall(r"[a-z0-9]+|[^\sa-z0-9]", text.lower()):
            counts[word] = counts.get(word, 0) + 1
    letters = sorted({letter for word in counts for letter in word})
    words = sorted(word for word, count in counts.items() if count >= 2 and len(word) > 1)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *("##" + letter for letter in letters), *words]
    (out / "bert").mkdir(exist_ok=True)
    (out / "bert" / "vocab.txt").write_text("".join(piece + "\n" for piece in pieces))
    model = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 2,
             "max_position_embeddings": 128}
    (out / "bert.json").write_text(json.dumps({"model": model, "tokenizer": "bert"}, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--packages", type=pathlib.Path, required=True, help="packages of Debian, each unpacked into its folder")
    parser.add_argument("--flickr8k", type=pathlib.Path, required=True)
    parser.add_argument("--ucm", type=pathlib.Path, required=True)
    parser.add_argument("--stamps", type=pathlib.Path, default=pathlib.Path("/usr/share/tuxpaint/stamps"))
    parser.add_argument("--manuals", type=int, default=500, help="manual pages to read")
    parser.add_argument("--captions", type=int, default=1000, help="captions of Flickr8k without a picture at hand")
    parser.add_argument("--ratio", type=float, default=2, help="non-visual texts for each visual one")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    sets = {"train": [], "validation": [], "test": []}

    def visual(part, source, entries):
        for text, image, group in entries:
            text = clean(text)
            if len(text.split()) >= 2:
                sets[part].append({"text": text, "visual": True, "image": os.path.relpath(image, options.out) if image else None,
                                   "source": source, "group": group})

    visual("train", "tuxpaint", stamps(options.stamps))
    visual("validation", "ucm", draw.sample(list(ucm(options.ucm)), 1500))
    captions = list(flickr8k(options.flickr8k))
    with_picture = [entry for entry in captions if entry[1]]
    without = draw.sample([entry for entry in captions if not entry[1]], options.captions + 50)
    visual("test", "flickr8k", with_picture + without)

    pools = {"train": [], "validation": [], "test": []}
    for source, document, texts in [*licences(options.packages), *manuals(options.packages, options.manuals, draw),
                                    *interface_strings(options.packages, 300, draw)]:
        for text in texts:
            text = clean(text)
            if usable(text):
                pools[share(source)].append({"text": text, "visual": False, "source": source,
                                             "group": f"{source}: {document}", "image": None})
    where = {}
    for part in sets:
        for entry in sets[part] + pools[part]:
            where.setdefault(entry["text"].lower(), set()).add((part, entry["visual"]))

    options.out.mkdir(parents=True, exist_ok=True)
    for part in sets:
        def once(entries):
            seen = set()
            for entry in entries:
                key = entry["text"].lower()
                if len(where[key]) == 1 and key not in seen:
                    seen.add(key)
                    yield entry
        its = list(once(sets[part]))
        others = list(once(pools[part]))
        kinds = {}
        for entry in others:  # as many of each kind, and of a source at most a tenth of its kind
            kinds.setdefault(entry["source"].split()[0], []).append(entry)
        wanted = int(options.ratio * len(its)) // len(kinds)
        for kind, entries in sorted(kinds.items()):
            draw.shuffle(entries)
            counts = {}
            chosen = []
            for entry in entries:
                counts[entry["source"]] = counts.get(entry["source"], 0) + 1
                if len(chosen) < wanted and (kind == "licence" or counts[entry["source"]] <= max(5, wanted // 10)):
                    chosen.append(entry)
            its += chosen
        adapt = []
        if part == "test":
            no_picture = [entry for entry in its if not entry["image"]]
            adapt = [e for e in no_picture if e["visual"]][:50] + draw.sample([e for e in no_picture if not e["visual"]], 50)
            its = [entry for entry in its if entry not in adapt]
        for name, entries in ((part, its), ("adapt", adapt)):
            if not entries:
                continue
            with (options.out / f"{name}.jsonl").open("w") as file:
                for entry in entries:
                    file.write(json.dumps({key: value for key, value in entry.items() if value is not None}) + "\n")
            by_source = {}
            for entry in entries:
                kind = entry["source"].split()[0]
                by_source.setdefault(kind, [0, set()])
                by_source[kind][0] += 1
                by_source[kind][1].add(entry["source"])
            print(f"{name}: " + ", ".join(f"{kind} {count} of {len(of)}" for kind, (count, of) in sorted(by_source.items())),
                  file=sys.stderr)
        if part == "train":
            texts = [entry["text"] for entry in sets[part] + pools[part]]
            (options.out / "words.txt").write_text("".join(text + "\n" for text in texts))
            write_bert(options.out, texts)


if __name__ == "__main__":
    main()
