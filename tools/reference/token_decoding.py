#!/usr/bin/env python3
"""Texts of the first k token ids of CLIP's and BERT's golden cases, by the tokenizers library.

For each case of clip.json and bert.json, a list of the texts of its first 1, 2, ... 24 ids, without special tokens and
without the clean-up of spaces. In CLIP's, "</w>" becomes a space and the ends are stripped, as transformers'
CLIPTokenizer does. Needs tokenizers:

  python3 tools/reference/token_decoding.py --folder tests/golden/tokenizers --out tests/golden/tokenizers/decoded.json
"""

import argparse
import json
import pathlib

from tokenizers import Tokenizer, decoders

MOST_IDS = 24


def decoded(folder: pathlib.Path, name: str) -> list[list[str]]:
    tokenizer = Tokenizer.from_file(str(folder / name / "tokenizer.json"))
    if name == "bert":
        tokenizer.decoder = decoders.WordPiece(cleanup=False)
    texts = []
    for case in json.loads((folder / f"{name}.json").read_text())["cases"]:
        ids = case["ids"][:MOST_IDS]
        row = [tokenizer.decode(ids[:k], skip_special_tokens=True) for k in range(1, len(ids) + 1)]
        texts.append([text.replace("</w>", " ").strip() for text in row] if name == "clip" else row)
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    texts = {name: decoded(arguments.folder, name) for name in ("bert", "clip")}
    arguments.out.write_text(json.dumps(texts, indent=1) + "\n")


if __name__ == "__main__":
    main()
