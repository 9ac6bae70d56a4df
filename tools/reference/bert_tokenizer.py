#!/usr/bin/env python3
"""What the tokenizers library makes of texts under every switch of BERT's normalizer, and of every code point.

Writes --switches: {"texts", "variants": [{"lowercase", "strip_accents", "handle_chinese_chars", "clean_text", "ids"}]},
and --characters: lines "first last classes", runs of code points c and what becomes of "a" + c + "b": r removed
when cleaned, s replaced by a space, c set apart as Chinese, m removed with the accents, p a word of its own,
w white space between words. Needs tokenizers:

  python3 tools/reference/bert_tokenizer.py --tokenizer tests/golden/tokenizers/bert/tokenizer.json \\
      --switches tests/golden/tokenizers/bert_switches.json --characters tests/golden/tokenizers/bert_characters.txt
"""

import argparse
import itertools
import json

from tokenizers import Tokenizer, normalizers, pre_tokenizers

TEXTS = [
    "H\u00e9llo W\u00f6rld, na\u00efve CAF\u00c9 \u0130stanbul \u1e9e \ufb00",
    "a [MASK] b[SEP]c [mask] [UNK]", "\u65e5\u672c\u8a9e \u5199\u771f",
    "\u0000a\ufffdb\u200bc\u00adx\u0085y\u2028z", "a\u0301\u0300 \u00e9", "x" * 100 + " " + "x" * 101,
    "##a # ##", "don't $5 ^_^ `q` ~", "\u0391\u03a3 \u03c2", "\u1734\u166d\U000111c9a",
    "tab\tnew\nline\rret\x0bvt", "\u0890 \U00013430 \ue000 \U000e0041", "", "  [CLS]  ",
    "a\U0002b820\U0002b81f\U0002b920b", "\u3000wide\u00a0nb\u1680og\u202fnn",
]


def switches(path):
    with open(path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    variants = []
    for lowercase, accents, chinese, clean in itertools.product(
            (True, False), (None, True, False), (True, False), (True, False)):
        normalizer = {"lowercase": lowercase, "strip_accents": accents, "handle_chinese_chars": chinese,
                      "clean_text": clean}
        tokenizer["normalizer"].update(normalizer)
        made = Tokenizer.from_str(json.dumps(tokenizer))
        variants.append({**normalizer, "ids": [made.encode(text).ids for text in TEXTS]})
    return {"texts": TEXTS, "variants": variants}


def normalizer(**switched_on):
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**off, **switched_on})


def characters():
    clean = normalizer(clean_text=True)
    chinese = normalizer(handle_chinese_chars=True)
    accents = normalizer(strip_accents=True)
    words = pre_tokenizers.BertPreTokenizer()
    runs = []
    for c in itertools.chain(range(0xD800), range(0xE000, 0x110000)):
        text = "a" + chr(c) + "b"
        cleaned = clean.normalize_str(text)
        classes = "r" if cleaned == "ab" else "s" if cleaned != text else ""
        classes += "c" if chinese.normalize_str(text) != text else ""
        classes += "m" if accents.normalize_str(text) == "ab" else ""
        classes += {1: "", 2: "w", 3: "p"}[len(words.pre_tokenize_str(text))]
        if classes and runs and runs[-1][1] == c - 1 and runs[-1][2] == classes:
            runs[-1][1] = c
        elif classes:
            runs.append([c, c, classes])
    return "".join("%x %x %s\n" % tuple(run) for run in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--switches", required=True)
    parser.add_argument("--characters", required=True)
    arguments = parser.parse_args()
    with open(arguments.switches, "w", encoding="utf-8") as file:
        json.dump(switches(arguments.tokenizer), file)
    with open(arguments.characters, "w", encoding="utf-8") as file:
        file.write(characters())


if __name__ == "__main__":
    main()
