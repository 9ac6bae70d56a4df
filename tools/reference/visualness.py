#!/usr/bin/env python3
r"""A small checkpoint that `saccade-lab train visualness` trained, for tests of what reads one.

The encoder is a dual encoder of one layer with random weights; cards of four colors are visual texts, and words without a
card are not. The tokenizer has CLIP's byte symbols and no merges. Needs a built saccade-lab:

  python3 tools/reference/visualness.py --lab build/release/bin/saccade-lab --out tests/golden/visualness
"""

import argparse
import json
import pathlib
import shutil
import struct
import subprocess
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLORS = {"red": (220, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 220), "white": (250, 250, 250)}
TOWER = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_act": "gelu"}
CONFIG = {
    "model": {
        "projection_dim": 16,
        "vision_config": {**TOWER, "image_size": 16, "patch_size": 8},
        "text_config": {**TOWER, "max_position_embeddings": 24},
    },
    "preprocessor": {
        "do_resize": True,
        "size": {"height": 16, "width": 16},
        "resample": 3,
        "do_center_crop": False,
        "do_rescale": True,
        "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    },
    "tokenizer": "tokenizer",
}


def write_png(path, color, side=16):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(color) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def write_lines(path, objects):
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))


def write_data(folder):
    cards, train, held_out = [], [], []
    for name, color in COLORS.items():
        write_png(folder / f"{name}.png", color)
        cards.append({"image": f"{name}.png", "captions": [name, f"a {name} card"]})
        train += [{"text": f"a {name} card", "visual": True, "image": f"{name}.png"},
                  {"text": f"no use {name}", "visual": False}]
        held_out += [{"text": f"a {name} card here", "visual": True, "image": f"{name}.png"},
                     {"text": f"no way {name}", "visual": False}]
    write_lines(folder / "cards.jsonl", cards)
    write_lines(folder / "train.jsonl", train)
    write_lines(folder / "validation.jsonl", held_out)
    vocabulary = json.loads((ROOT / "tests/golden/tokenizers/clip/vocab.json").read_text())
    symbols = {token: number for token, number in vocabulary.items() if number < 512}
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer/vocab.json").write_text(json.dumps({**symbols, "<|startoftext|>": 512, "<|endoftext|>": 513}))
    (folder / "tokenizer/merges.txt").write_text("#version: 0.2\n")
    (folder / "model.json").write_text(json.dumps(CONFIG))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    lab = arguments.lab.resolve()
    common = ["--batch-size", "4", "--precision", "fp32", "--threads", "1"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_data(folder)

        def train(*words):
            subprocess.run([lab, "train", *words, *common], cwd=folder, check=True)

        train("dual", "--dataset", "cards.jsonl", "--held-out", "cards.jsonl", "--config", "model.json", "-o", "base",
              "--cache", "cache", "--steps", "0")
        train("visualness", "-m", "base/model", "--automatic", "train.jsonl", "--human", "train.jsonl", "--validation",
              "validation.jsonl", "-o", "run", "--learning-rate", "0.003", "--automatic-epochs", "60", "--human-epochs", "20")
        shutil.rmtree(arguments.out, ignore_errors=True)
        shutil.copytree(folder / "run/model", arguments.out)


if __name__ == "__main__":
    main()
