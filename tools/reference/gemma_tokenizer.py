#!/usr/bin/env python3
"""A small tokenizer of Gemma's make (BPE with byte fallback, spaces as U+2581) and its ids, by tokenizers.

Trains on a text file, writes tokenizer.json and tokenizer_config.json to a folder, and beside it FOLDER.json: for
each text of the cases file, the ids of the text alone, and framed as the post-processor says. Needs tokenizers:

  python3 tools/reference/gemma_tokenizer.py --corpus CORPUS.txt \\
      --cases tests/golden/tokenizers/sentencepiece/sentencepiece_bpe.json --out tests/golden/tokenizers/gemma
"""

import argparse
import json
import pathlib

from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MORE = ["<image> a photo", "a<image>b", "<bos>twice<eos>", "line\n\nbreaks\n", "  two  spaces  ", "\u2581 escaped",
        "<image><image>", "<loc0001> left <loc00>", "x<0x41>y"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--cases", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()

    tokenizer = Tokenizer(BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    # Training cuts at words, so that pieces begin with a space and do not run across several.
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    tokenizer.train([arguments.corpus], BpeTrainer(vocab_size=560, special_tokens=SPECIAL + BYTES,
                                                   show_progress=False))
    text = json.loads(tokenizer.to_str())
    text["added_tokens"] = [token for token in text["added_tokens"] if token["content"] in SPECIAL]
    text["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                             "invert": False}
    tokenizer = Tokenizer.from_str(json.dumps(text))
    tokenizer.add_special_tokens([AddedToken("<image>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<loc0001>", normalized=False), AddedToken("\n\n", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", tokenizer.token_to_id("<bos>"))])

    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False))
    (arguments.out / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>",
        "unk_token": "<unk>"}))
    with open(arguments.cases, encoding="utf-8") as file:
        texts = [case["text"] for case in json.load(file)["cases"]] + MORE
    cases = [{"text": one, "ids": tokenizer.encode(one, add_special_tokens=False).ids,
              "framed": tokenizer.encode(one).ids} for one in texts]
    with open(f"{arguments.out}.json", "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(case) for case in cases)
        file.write(f'{{"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
