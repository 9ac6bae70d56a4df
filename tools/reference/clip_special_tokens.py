#!/usr/bin/env python3
"""CLIP's token ids of texts with special tokens inside them, by the tokenizers library.

Each case has the ids as tokenizer.json stands ("ids"), with the pattern of older files that does not know the
special tokens ("ids_plain_pattern"), and with "!" as the padding token, which is then a token wherever it
stands ("ids_pad_exclamation": what transformers makes of "pad_token": "!"). Needs tokenizers:

  python3 tools/reference/clip_special_tokens.py --tokenizer tests/golden/tokenizers/clip/tokenizer.json \\
      --out tests/golden/tokenizers/clip_special.json
"""

import argparse
import json

from tokenizers import AddedToken, Tokenizer

START, END = "<|startoftext|>", "<|endoftext|>"
TEXTS = [
    # As they stand, with and without company.
    END, START, END + END, START + END, f"a {END} b", f"a{END}b", f"a  {END}  b", f"{END} cat", f"cat {END}",
    f"\t{END}\n", f"don't{END}'s", f"{END}1", f"1{END}",
    # In another case.
    END.upper(), START.upper(), f"a {END.upper()} b", f"a{START.upper()}b", "<|EndOfText|>",
    "<|endofText|> x",
    f"{END}{END.upper()}{END}", f"{END.upper()}{END}<|StartOfText|>", f"{START.upper()}{END.upper()}",
    f"\u3000{END.upper()}\u3000", f"{END.upper()}'s", f"1{END.upper()}1", f"a{END.upper()}a",
    f"\u0130{END.upper()}",
    f"..{END.upper()}", f"{END.upper()}..",
    # Nearly.
    "<|endoftext|", "|endoftext|>", "<|endoftext |>", "<| endoftext|>", f"{END}>", f"<{END}", f"<|{END}|>",
    f"{END}|>",
    "<|end of text|>", "<|endo\u00adftext|>", "<|endofte\u0301xt|>", "<|\u017ftartoftext|>",
    "<|\uff25\uff2e\uff24\uff2f\uff26\uff34\uff25\uff38\uff34|>", "&lt;|endoftext|&gt;",
    # Marks and invisible characters beside them.
    f"{END}\u0301", f"e\u0301{END}\u0301e", f"\ufeff{END}", f"{END}\u200b", f"{END}\u200d{START}",
    # What pads elsewhere, and other models' names.
    "!", "!!", "! !", "!!!!!!!!", "a!", "a !", "!a", "! a !", "hello! world!", f"!{END}!", f"!{END.upper()}",
    f"{START.upper()}!", "?!?", "<unk>", "<pad>", "[PAD]", "</w>", "cat</w>", f"{END}</w>",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="CLIP's tokenizer.json")
    parser.add_argument("--out", required=True, help="JSON file to write")
    arguments = parser.parse_args()

    with open(arguments.tokenizer, encoding="utf-8") as file:
        text = file.read()
    as_is = Tokenizer.from_str(text)
    older = json.loads(text)
    pattern = older["pre_tokenizer"]["pretokenizers"][0]["pattern"]
    pattern["Regex"] = pattern["Regex"].removeprefix(r"<\|startoftext\|>|<\|endoftext\|>|")
    plain = Tokenizer.from_str(json.dumps(older))
    padded = Tokenizer.from_str(text)
    padded.add_special_tokens([AddedToken("!", normalized=False)])

    cases = [
        {
            "text": one,
            "ids": as_is.encode(one).ids,
            "ids_plain_pattern": plain.encode(one).ids,
            "ids_pad_exclamation": padded.encode(one).ids,
        }
        for one in TEXTS
    ]
    with open(arguments.out, "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(case) for case in cases)
        file.write(f'{{"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
