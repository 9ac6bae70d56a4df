#!/usr/bin/env python3
"""Writes the first inputs of each fuzzer into corpus/NAME/. What fuzzers found later lies beside them."""
import base64
import gzip
import io
import json
import pathlib
import struct
import zipfile
import zlib

ROOT = pathlib.Path(__file__).parent / "corpus"


def put(folder: str, name: str, content: bytes | str) -> None:
    path = ROOT / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def tensors(header: object, data: int, size: int | None = None) -> bytes:
    text = header if isinstance(header, str) else json.dumps(header)
    return struct.pack("<Q", len(text) if size is None else size) + text.encode() + bytes(data)


def entry(dtype: str, shape: list, begin: int, end: int) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors() -> None:
    good = {"__metadata__": {"format": "pt"}, "a": entry("F32", [2, 2], 0, 16), "b": entry("BF16", [], 16, 18)}
    files = {
        "good": tensors(good, 18),
        "empty": b"",
        "short": b"\x01\x00",
        "no_tensors": tensors("{}", 0),
        "every_dtype": tensors({d: entry(d, [1], i * 8, i * 8 + 8) for i, d in enumerate(["F64", "I64", "U64"])}, 24),
        "halves": tensors({"h": entry("F16", [3], 0, 6), "u": entry("U8", [2], 6, 8), "t": entry("BOOL", [1], 8, 9)}, 9),
        "overlap": tensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, 6),
        "gap": tensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 6, 10)}, 10),
        "trailing": tensors(good, 19),
        "past_the_end": tensors(good, 17),
        "overflow": tensors({"a": entry("F32", [1 << 62, 4], 0, 0)}, 0),
        "negative": tensors({"a": entry("F32", [-1], 0, 4)}, 4),
        "header_2_63": tensors("{}", 0, 1 << 63),
        "header_max": tensors("{}", 0, (1 << 64) - 1),
        "header_past_end": tensors("{}", 0, 3),
        "twice": tensors('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{}}', 1),
        "deep": tensors('{"a":' + "[" * 300, 0),
        "array": tensors("[]", 0),
        "empty_tensors": tensors({"a": entry("F32", [0], 0, 0), "b": entry("F32", [0, 9], 0, 0)}, 0),
        "not_utf8": struct.pack("<Q", 8) + b'{"\xff":1}',
    }
    for name, content in files.items():
        put("safetensors", name, content)


def torch_file() -> None:
    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def tensor(offset: int, shape: bytes, strides: bytes, key: str = "0", elements: bytes = b"K\x08") -> bytes:
        storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + elements + b"tQ"
        return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K" + bytes([offset]) + shape + strides
                + b"\x89ccollections\nOrderedDict\n)RtR")

    def state(*entries: tuple[str, bytes]) -> bytes:
        return b"\x80\x02}(" + b"".join(text(name) + value for name, value in entries) + b"u."

    def archive(pickle: bytes, method: int = zipfile.ZIP_STORED) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as out:
            for name, content in (("r/data.pkl", pickle), ("r/byteorder", b"little"), ("r/data/0", bytes(32))):
                out.writestr(zipfile.ZipInfo(name), content, method)
        return file.getvalue()

    square, by_rows = b"K\x02K\x04\x86", b"K\x04K\x01\x86"
    good = state(("w", tensor(0, square, by_rows)), ("b", tensor(4, b"K\x04\x85", b"K\x01\x85")))
    module = (b"\x80\x02c__torch__.m\nM\n)\x81}(" + text("w") + tensor(0, square, by_rows) + text("n") + b"K\x01ub.")
    pickles = {
        "good": good,
        "module": module,
        "training": b"\x80\x02}(" + text("state_dict") + good[2:-1] + text("epoch") + b"K\x03u.",
        "outside": state(("w", tensor(5, square, by_rows))),
        "no_storage": state(("w", tensor(0, square, by_rows, key="1"))),
        "wrong_elements": state(("w", tensor(0, square, by_rows, elements=b"J\xff\xff\xff\xff"))),
        "long": state(("w", tensor(0, b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85", b"K\x00\x85"))),
        "system": state(("w", b"cos\nsystem\n" + text("true") + b"\x85R")),
        "stack_global": state(("w", text("os") + text("system") + b"\x93")),
        "itself": b"}q\x01" + text("a") + b"h\x01s.",
        "list": state(("w", b"](" + tensor(0, square, by_rows) + b"Ne")),
        "memo": b"\x80\x04\x95" + bytes(8) + b"}\x94(" + text("a") + b"h\x00u.",
        "marks": b"(((1110.",
        "cut": good[:40],
        "empty": b"",
    }
    for name, content in pickles.items():
        put("torch_file", f"pickle_{name}", b"P" + content)
    files = {
        "good": archive(good),
        "module": archive(module),
        "compressed": archive(good, zipfile.ZIP_DEFLATED),
        "cut": archive(good)[:-30],
        "zip64": archive(good)[:-22] + b"PK\6\6" + bytes(52) + b"PK\6\7" + bytes(16) + archive(good)[-22:],
        "before_1_6": bytes.fromhex("80028a0a6cfc9c46f9206aa85019") + b".",
        "empty": b"",
    }
    for name, content in files.items():
        put("torch_file", f"zip_{name}", b"Z" + content)


def json_fields() -> None:
    clip = {"crop_size": {"height": 224, "width": 224}, "do_center_crop": True, "do_normalize": True, "do_resize": True,
            "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "resample": 3,
            "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 224}}
    files = {
        "clip": json.dumps(clip),
        "old_clip": json.dumps(clip | {"size": 224, "crop_size": 224}),
        "squash": json.dumps(clip | {"size": {"height": 224, "width": 224}, "do_center_crop": False}),
        "lanczos": json.dumps(clip | {"resample": 1}),
        "zero_std": json.dumps(clip | {"image_std": [0, 0, 0]}),
        "two_means": json.dumps(clip | {"image_mean": [0, 0]}),
        "huge_size": json.dumps(clip | {"size": {"shortest_edge": 1 << 40}}),
        "negative_size": json.dumps(clip | {"size": -1, "crop_size": {"height": -5, "width": 0}}),
        "text_size": json.dumps(clip | {"size": "224"}),
        "far_numbers": json.dumps(clip | {"rescale_factor": 1e300, "image_mean": [1e39, 0, 0]}),
        "own": json.dumps(clip | {"saccade": {"alpha": "composite", "background": [255, 0, 300]}}),
        "open_clip": json.dumps({"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bilinear", "resize_mode": "squash"}),
        "open_clip_longest": json.dumps({"size": [224, 336], "resize_mode": "longest"}),
        "open_clip_odd": json.dumps({"interpolation": 3, "resize_mode": [], "fill_color": None}),
        "numbers": '{"size": 18446744073709551615, "a": -9223372036854775808, "image_size": 1e999}',
        "twice": '{"a": 1, "a": 2}',
        "deep": "[" * 300 + "]" * 300,
        "null": "null",
        "surrogate": '"\\ud83d\\udc31 \\ud83d"',
        "cut": '{"size": {"shortest_edge"',
        "empty": "",
        "floats": "[0.1, 1e-320, 123456789012345678901234567890, -0.0, 2.5e300]",
    }
    for name, content in files.items():
        put("json_fields", name, content)


def tokenizer_text() -> None:
    texts = {
        "caption": "A photo of two dogs, don't they'll run?",
        "emoji": "\U0001f3f3\ufe0f\u200d\U0001f308 \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e8\U0001f1ed",
        "marks": "e" + "\u0301\u0323" * 100 + "\u0344\u0f73" * 100,
        "specials": "<|startoftext|>a<|ENDOFTEXT|>!<|endoftext|><|start<|endoftext",
        "html": "&amp;lt;b&amp;gt; &notit; &#x110000; &#0;&#128;&CounterClockwiseContourIntegral;&",
        "case": "\u0130stanbul \u039f\u0394\u039f\u03a3 \u1e9e \u017f '\u017f",
        "spaces": " \t\r\n\u00a0\u2028\u3000\x1c\x1f\u200b",
        "numbers": "1234 \u00bd \u00b2 \u0663 \u2167",
        "long_word": "a" * 3000,
        "hangul": "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00",
        "empty": "",
        "zero": "a\0b",
    }
    for name, text in texts.items():
        put("tokenizer_text", name, text)
    put("tokenizer_text", "not_utf8", b"\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80 \xf0\x9f\x90")
    put("tokenizer_text", "all_bytes", bytes(range(256)))


def tokenizer_files() -> None:
    specials = {"ab": 512, "abab": 513, "<|startoftext|>": 514, "<|endoftext|>": 515}
    golden = json.loads((ROOT.parents[1] / "tests/golden/tokenizers/clip/tokenizer.json").read_text(encoding="utf-8"))
    golden["model"]["vocab"] = {"bytes": 0} | specials
    golden["model"]["merges"] = [["a", "b"], ["ab", "ab"]]
    golden["added_tokens"][0]["id"] = golden["post_processor"]["cls"][1] = 514
    golden["added_tokens"][1]["id"] = golden["post_processor"]["sep"][1] = 515

    def whole(name: str, *path_and_value: object) -> None:
        changed = json.loads(json.dumps(golden))
        if path_and_value:
            *path, last, value = path_and_value
            at = changed
            for key in path:
                at = at[key]
            at[last] = value
        put("tokenizer_files", name, "T" + json.dumps(changed))

    whole("good")
    whole("string_merges", "model", "merges", ["a b", "ab ab"])
    whole("bad_merge", "model", "merges", ["a b", "ab zz"])
    whole("odd_merge", "model", "merges", [["a"], 3])
    whole("no_suffix", "model", "end_of_word_suffix", None)
    whole("no_unknown", "model", "unk_token", None)
    whole("gap", "model", "vocab", {"bytes": 0, "ab": 600})
    whole("double", "model", "vocab", {"bytes": 0} | specials | {"x1": 3})
    whole("negative", "model", "vocab", {"bytes": 0} | specials | {"x1": -3})
    whole("no_bytes", "model", "vocab", {"<|startoftext|>": 0, "<|endoftext|>": 1})
    whole("normalized", "added_tokens", 0, "normalized", True)
    whole("empty_token", "added_tokens", 0, "content", "")
    whole("far_token", "added_tokens", 0, "id", 1 << 31)
    whole("no_normalizer", "normalizer", None)
    whole("no_regex", "pre_tokenizer", "pretokenizers", 1, "use_regex", False)
    whole("padding", "padding", {"pad_id": 516})
    whole("template", "post_processor", {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|startoftext|>"}}, {"Sequence": {"id": "A"}},
                   {"SpecialToken": {"id": "<|endoftext|>"}}],
        "special_tokens": {"<|startoftext|>": {"ids": [514]}, "<|endoftext|>": {"ids": [515]}}})
    vocab = json.dumps({"bytes": 0} | specials)
    put("tokenizer_files", "pair_good", "V" + vocab + "\0#version: 0.2\na b\nab ab\n")
    put("tokenizer_files", "pair_windows", "V" + vocab + "\0#version: 0.2\r\na b\r\n\r\nab ab")
    put("tokenizer_files", "pair_bad_line", "V" + vocab + "\0a  b\n")
    put("tokenizer_files", "pair_no_merges", "V" + vocab)
    put("tokenizer_files", "pair_array", "V[]\0a b\n")


def images() -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    def png(width: int, height: int, depth: int, colour: int, rows: bytes, *extra: bytes) -> bytes:
        head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
        return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(extra) + chunk(b"IDAT", zlib.compress(rows))
                + chunk(b"IEND", b""))

    rgb = png(3, 2, 8, 2, (b"\0" + bytes(range(9))) * 2)
    gif = base64.b64decode("R0lGODlhAQABAIAAAP8AAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==")
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="4"><path d="M0 0h8v4z" fill="red"/></svg>'
    within = svg.replace("<path", '<image width="8" height="4" href="data:image/png;base64,%s"/><path'
                         % base64.b64encode(rgb).decode())
    bmp = b"BM" + struct.pack("<IHHI", 62, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 1, 2, 1, 24, 0, 8, 0, 0, 0, 0) + bytes(8)
    files = {
        "rgb.png": rgb,
        "cut.png": rgb[:-25],
        "flipped.png": rgb[:40] + bytes([rgb[40] ^ 255]) + rgb[41:],
        "grey.png": png(2, 2, 8, 0, b"\0\1\2" * 2),
        "grey_alpha.png": png(1, 1, 8, 4, b"\0\1\2"),
        "rgba.png": png(1, 1, 8, 6, b"\0\1\2\3\4"),
        "palette.png": png(2, 1, 8, 3, b"\0\0\1", chunk(b"PLTE", bytes(6)), chunk(b"tRNS", b"\0\xff")),
        "bilevel.png": png(8, 1, 1, 0, b"\0\xaa"),
        "deep.png": png(1, 1, 16, 2, b"\0" + bytes(6)),
        "bomb.png": png(1 << 30, 1 << 30, 8, 2, b""),
        "one.gif": gif,
        "cut.gif": gif[:20],
        "shape.svg": svg,
        "entities.svg": '<!DOCTYPE svg [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + svg.replace("red", "&b;"),
        "outside.svg": svg.replace("<path", '<image href="file:///etc/passwd" width="8" height="4"/><path'),
        "within.svg": within,
        "within_twice.svg": svg.replace("<path", '<image href="data:image/svg+xml;base64,%s"/><path'
                                        % base64.b64encode(within.encode()).decode()),
        "within_percent.svg": svg.replace("<path", '<image href=" &#68;ATA:,%89PNG"/><path'),
        "points.svg": svg.replace('"8"', '"8pt"').replace('"4"', '"4mm"'),
        "packed.svgz": gzip.compress(svg.encode(), mtime=0),
        "cut.svgz": gzip.compress(svg.encode(), mtime=0)[:60],
        "huge.svg": svg.replace('"8"', '"1e9"'),
        "no_size.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
        "one.bmp": bmp,
        "cut.bmp": bmp[:50],
        "wide.bmp": bmp[:18] + struct.pack("<ii", 1 << 30, -(1 << 31)) + bmp[26:],
        "start.jpg": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xd9",
        "start.tiff": b"II*\0\x08\0\0\0\1\0\0\1\3\0\1\0\0\0\1\0\0\0\0\0\0\0",
        "start.webp": b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0",
        "start.heic": b"\0\0\0\x18ftypheic\0\0\0\0heicmif1",
        "empty": b"",
        "text": b"not a picture",
    }
    for name, content in files.items():
        put("image", name, content)


def decoder_reply() -> None:
    def reply(error: int = -1, size: tuple = (30, 20), channels: int = 3, mode: int = 2, original: tuple = (30, 20),
              pixels: int = 1, form: bytes = b"png", message: bytes = b"") -> bytes:
        return struct.pack("<7iI16s512s", error, *size, channels, mode, *original, pixels, form, message)

    files = {
        "good": b"\0" + reply(),
        "size_only": b"\1" + reply(pixels=0),
        "small": b"\1" + reply(size=(9, 9)),
        "error": b"\0" + reply(error=2, message=b"png: broken\n\x1b[2J\xff"),
        "long_error": b"\0" + reply(error=4, message=b"x" * 512),
        "no_words": b"\0" + reply(error=4),
        "unknown_error": b"\0" + reply(error=99, message=b"x"),
        "no_pixels": b"\0" + reply(pixels=0),
        "huge": b"\0" + reply(size=(2**31 - 1, 2**31 - 1)),
        "negative": b"\0" + reply(size=(-1, -1)),
        "channels": b"\0" + reply(channels=5),
        "mode": b"\0" + reply(mode=-1),
        "format": b"\0" + reply(form=b"../../../etc/xx!"),
        "short": b"\0" + reply()[:-1],
        "empty": b"",
    }
    for name, content in files.items():
        put("decoder_reply", name, content)


def varint(number: int) -> bytes:
    rest = number >> 7
    return bytes([number & 127 | (128 if rest else 0)]) + (varint(rest) if rest else b"")


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def sentencepiece() -> None:
    pieces = [
        message(1, message(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score) + number(3, kind))
        for text, score, kind in [
            ("<unk>", 0, 2), ("</s>", 0, 3), ("\u2581", -2, 1), ("a", -3, 1), ("\u2581a", -1.5, 1), ("t", -3, 1),
            ("at", -2.5, 1), ("o", -3, 1), ("photo", -2, 4), ("of", -4, 5)]
    ]

    def model(kind: int, trainer: bytes = b"", normalizer: bytes = b"", first: int = 0) -> bytes:
        return b"".join(pieces[first:]) + message(2, number(3, kind) + trainer) + message(3, normalizer)

    trie = struct.pack("<IIIII", 16, 1 << 10, 0x161 | 2 << 10, 1 << 31, 0)
    files = {
        "unigram": model(1),
        "bpe": model(2),
        "suffix": model(1, trainer=number(24, 1), normalizer=number(4, 0)),
        "charsmap": model(1, normalizer=message(2, trie + b" \0")),
        "no_unknown": model(1, first=1),
        "byte_fallback": model(2, trainer=number(35, 1)),
        "cut": model(1)[:40],
        "long_varint": b"\x0a" + b"\xff" * 12,
        "empty": b"",
    }
    for name, content in files.items():
        put("sentencepiece", name, content)


def dataset_records() -> None:
    def header(name: str, size: int, kind: bytes = b"0") -> bytes:
        block = bytearray(512)
        block[:len(name)] = name.encode()
        block[124:136] = b"%011o\0" % size
        block[148:156] = b" " * 8
        block[156:157] = kind
        block[257:265] = b"ustar\x0000"
        block[148:156] = b"%06o\0 " % sum(block)
        return bytes(block)

    def member(name: str, content: bytes, kind: bytes = b"0") -> bytes:
        return header(name, len(content), kind) + content + bytes(-len(content) % 512)

    end = bytes(1024)
    pax = b"%d path=folder/b.jpg\n" % 22
    item = {"id": "1", "image": "a/1.jpg", "captions": ["a dog", "\u00e9\n"], "split": "test", "group": "g"}
    inside = {"image": {"path": "0.tar", "member": "a.jpg", "offset": 512, "size": 9}}
    pair = {"images": ["1.png", "2.png"], "captions": ["a b", "b a"], "kind": "swap"}
    files = {
        "csv": "Cimage,caption\r\n1.jpg,\"a \"\"dog\"\", here\nand there\"\n\n2.jpg,\n",
        "csv_mark": b"C\xef\xbb\xbfimage,caption\n1.jpg,caf\xe9\n",
        "csv_open": "Ca,\"b\nc",
        "csv_after_quote": "C\"a\"b,c\n",
        "csv_odd": "C,\r\r\n\"\"\n\",\n",
        "tsv": "Tname\ttitle\n1\t\"a\tb\"\n",
        "tar": b"A" + member("a.jpg", b"12345") + member("a.txt", b"a dog") + end,
        "tar_long": b"A" + member("././@LongLink", b"n" * 150 + b"\0", b"L") + member("cut", b"x") + end,
        "tar_pax": b"A" + member("pax", pax, b"x") + member("cut", b"x") + end,
        "tar_bad_pax": b"A" + member("pax", b"99 path=x\n", b"x") + member("cut", b"x") + end,
        "tar_cut": b"A" + member("a.jpg", b"12345")[:600],
        "tar_no_end": b"A" + member("a.jpg", b"12345"),
        "tar_huge": b"A" + header("a.jpg", (1 << 33) - 1) + end,
        "tar_sparse": b"A" + member("a", b"", b"S") + end,
        "tar_folder": b"A" + member("a/", b"", b"5") + member("b/", b"") + end,
        "tar_gzip": b"A\x1f\x8b\x08\x00",
        "json": 'J[ {"a": "]}\\""}, [1, [2]], "x", -1e5, null ]',
        "json_object": 'J{"images": [{"sentences": []}], "b": {}}',
        "json_lines": 'J{"a": 1}\n{"b": 2}\n',
        "json_cut": 'J[{"a": "b',
        "json_odd": "J[1 2,]}",
        "json_mark": b"J\xef\xbb\xbf[1]",
        "manifest": "M" + json.dumps(item) + "\r\n\n" + json.dumps(inside) + "\n",
        "manifest_pairs": "M" + json.dumps(pair) + "\n" + json.dumps({"images": ["1.png"], "captions": ["r", "w"]}),
        "manifest_mixed": "M" + json.dumps(item) + "\n" + json.dumps(pair) + "\n",
        "manifest_up": 'M{"image": "../../x/../y.png"}\n{"image": "/z/../../w.png"}\n',
        "manifest_bad": 'M{"image": {"path": "a", "member": "b", "offset": -1, "size": 9223372036854775807}}\n',
        "empty": "",
    }
    for name, content in files.items():
        put("dataset_records", name, content)


def documents() -> None:
    """Text, Markdown and HTML: the first byte says which."""
    files = {
        "text": "TA paragraph that is wrapped at con-\nfiguration, and\n\n2.1\n\nTitle\n\na     b\n\tc\n",
        "text_latin": b"Tcaf\xe9 \x80\n\n\x93b\x94",
        "text_utf16": b"T\xff\xfea\x00\n\x00\n\x00=\xd8\x00\xde",
        "text_half": b"T\xfe\xff\xd8\x00",
        "markdown": "M---\na: b\n---\n# t\n\na [l](u\n\"t\") ![p](q)\n\nb[^1]\n| a |\n|---|\n| 1 |\n\n[^1]: n\n\n- c\n\n> d\n",
        "markdown_table": "Mabove\n| a | b |\n|---|---|\nc\n\n![p](q)\n",
        "markdown_mark": b"M\xef\xbb\xbfa\n\nb",
        "markdown_html": "M<div>\na\n</div>\n\n<script>b</script>\n\n<img src=a> c\n",
        "markdown_open": "M```\na\n[a](<b\n",
        "markdown_signs": "M" + 8 * "_[^1]",
        "markdown_links": "M" + 8 * "~~[a](b)",
        "markdown_addresses": "M" + 4 * "http://a.b<",
        "markdown_brackets": "Mwww.a" + 30 * ")",
        "html": "H<!doctype html><title>t</title><body><p>a<b>c</p><p>d<p>e<div>f<p>g</div><figure></figure><p>h</body>",
        "html_latin": b"H<meta charset=latin1><p>caf\xe9</p>",
        "html_other": "H<meta charset=shift_jis><p>a",
        "html_wrong": "H<p>a<table><p>b</table></p></b><a><p>c</a><svg><p>d</svg><!-- <p>",
        "html_cut": "H<p>a</p",
        "empty": "",
    }
    for name, content in files.items():
        put("document", name, content)


def http_parts() -> None:
    part = "--b\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n"
    form = "multipart/form-data; boundary=b\n"
    put("http_parts", "form", form + part.format("entries", "{}") + part.format("text", "a bell") + "--b--\r\n")
    put("http_parts", "form_cut_off", form + part.format("entries", "{}") + "--b")
    put("http_parts", "form_without_names", form + "--b\r\n\r\n1\r\n--b--")
    put("http_parts", "form_quoted", "multipart/form-data; x=\"\\\";\"; boundary=\"b\"\n" + part.format("x;name=y", "") + "--b--")
    put("http_parts", "form_of_many", form + part.format("x", "1") * 65 + "--b--")
    put("http_parts", "range", "bytes=1-3\n0123456789")
    put("http_parts", "range_of_the_end", "bytes=-9223372036854775808\n0123456789")
    put("http_parts", "query", "q=a+b%20c&&=&x=%zz&%41=%")
    put("http_parts", "path", "/api/collections/%E4%BD%A0%00/images/1")
    put("http_parts", "picture", "data:image/png;base64,iVBORw0KGgo=\n")
    put("http_parts", "picture_padded_wrongly", "====\n")


def request_bodies() -> None:
    """As each format's clients write them; a picture is one of a single pixel."""
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(b"\0\x80\x40\x20", 9)) + chunk(b"IEND", b"")
    base64_png = base64.b64encode(png).decode()
    picture = "data:image/png;base64," + base64_png

    def body(name: str, path: str, fields: object) -> None:
        put("request_body", name, path + "\n" + json.dumps(fields))

    body("own_text", "api/search", {"text": "a red bell", "k": 3})
    body("own_picture", "api/collections/pictures/search", {"image": picture, "k": 3, "group_duplicates": False})
    body("own_composed", "api/search", {"image": base64_png, "text": "at night", "compose": "sum", "text_weight": 0.4})
    body("own_was", "api/search", {"like": 1, "text": "two cats", "was": "a bell", "compose": "difference"})
    body("own_like", "api/search", {"like": 2, "k": 5, "offset": 1, "collection": "pictures"})
    body("own_everything", "api/search", {
        "text": "cats -dogs bell:2", "literal": False, "filter": "width > 100 and format = jpeg", "k": 2, "offset": 1,
        "group_duplicates": True, "chunk_long_text": True, "candidates": 4, "min_probability": 0.5, "order": "date", "keyword_weight": 0.3})
    body("own_rerank", "api/search", {"text": "a red bell", "rerank": "starter", "rerank_depth": 2, "rerank_by": "cosine", "k": 3})
    body("own_images", "api/search", {
        "images": [{"image": picture}, {"image": base64_png, "weight": -0.5}], "text": "at night", "without": ["dogs"], "k": 2,
        "group_above": 0.9, "exact_rescore": 5, "explain": True, "explain_by": "chefer"})
    body("own_unknown_field", "api/search", {"text": "a", "limit": 3})
    body("own_wrong_types", "api/search", {"text": 3, "k": "3", "group_duplicates": "yes", "text_weight": [], "image": {}})
    body("own_numbers_too_large", "api/search", {"text": "a", "k": 2**63 - 1, "offset": 2**63 - 1})
    put("request_body", "own_broken", 'api/search\n{"text": "a", ')
    put("request_body", "own_not_utf8", b'api/search\n{"text": "\xff\xfe"}')
    put("request_body", "own_form", (
        b'api/search\n--b\r\nContent-Disposition: form-data; name="text"\r\n\r\na bell\r\n--b\r\n'
        b'Content-Disposition: form-data; name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
        + png + b"\r\n--b--\r\n"))
    body("session", "api/session", {"key": "0123456789abcdef"})

    body("openai_text", "v1/embeddings", {"input": "a bell", "model": "starter", "encoding_format": "base64"})
    body("openai_texts", "v1/embeddings", {"input": ["a bell", "two cats"], "model": "starter", "user": "me"})
    body("openai_tokens", "v1/embeddings", {"input": [[1, 2, 3]], "model": "starter", "dimensions": 64})
    body("openai_parts", "v1/embeddings", {"model": "starter", "input": [
        {"type": "text", "text": "a bell"}, {"type": "image_url", "image_url": {"url": picture}}]})
    body("openai_remote", "v1/embeddings", {"model": "starter", "input": [
        {"type": "image_url", "image_url": {"url": "https://pictures.example/a.png"}}]})
    body("jina", "v1/embeddings", {"model": "starter", "normalized": True, "embedding_type": "float",
                                   "input": [{"text": "a bell"}, {"image": base64_png}]})
    body("nim", "v1/embeddings", {"model": "starter", "input": ["a bell", picture], "modality": ["text", "image"],
                                  "input_type": "query", "truncate": "END", "encoding_format": "float"})
    body("nim_truncate", "v1/embeddings", {"model": "starter", "input": ["bell " * 100], "input_type": "passage",
                                           "truncate": "NONE"})
    body("infinity", "v1/embeddings", {"model": "starter", "input": [picture], "modality": "image"})

    body("clip_retrieval_python", "knn-service", {
        "text": "red bell", "image": None, "image_url": None, "embedding_input": None, "deduplicate": True,
        "use_safety_model": True, "use_violence_detector": True, "indice_name": "pictures", "use_mclip": False,
        "aesthetic_score": 9, "aesthetic_weight": 0.5, "modality": "image", "num_images": 3, "num_result_ids": 3})
    body("clip_retrieval_front_end", "knn-service", {
        "text": None, "image": base64_png, "image_url": None, "modality": "image", "num_images": 1,
        "indice_name": "pictures", "num_result_ids": 3000, "use_mclip": False, "deduplicate": False,
        "use_safety_model": True})
    body("clip_retrieval_row", "knn-service", {"embedding_input": [0.1] * 64, "indice_name": "pictures"})
    body("clip_retrieval_remote", "knn-service", {"image_url": "https://pictures.example/a.png"})
    body("clip_retrieval_metadata", "metadata", {"ids": [1, 2, 77], "indice_name": "pictures"})

    def immich(entries: object, name: str, content: bytes) -> bytes:
        return (b'predict\n--b\r\nContent-Disposition: form-data; name="entries"\r\n\r\n'
                + json.dumps(entries).encode() + b'\r\n--b\r\nContent-Disposition: form-data; name="' + name.encode()
                + b'"\r\n\r\n' + content + b"\r\n--b--\r\n")

    put("request_body", "immich_visual", immich({"clip": {"visual": {"modelName": "starter"}}}, "image", png))
    put("request_body", "immich_textual", immich(
        {"clip": {"textual": {"modelName": "starter", "options": {"language": "en"}}}}, "text", b"a bell"))
    put("request_body", "immich_faces", immich({"facial-recognition": {"detection": {"modelName": "x"}}}, "image", png))

    body("tei_text", "embed", {"inputs": "a bell"})
    body("tei_texts", "embed", {"inputs": ["a bell", picture], "truncate": True, "normalize": True,
                                "truncation_direction": "Right", "prompt_name": None})
    body("tei_rerank", "rerank", {"query": "a bell", "texts": ["two cats", picture], "raw_scores": True,
                                  "return_text": True, "truncate": True})
    put("request_body", "deep", "embed\n" + '{"inputs":' * 300)
    put("request_body", "empty", "embed\n")
    put("request_body", "nowhere", "v2/embeddings\n{}")


def queries() -> None:
    texts = ["cats -dogs", "beach:2 sunset", '"golden retriever":2 -"stop sign":0.8', '"red apple" tree', "cats -- -dogs and a:b",
             "16:9 at 12:30", "\u201cred bell\u201d:3", '"a "a "a', "- -- :", "a:11", "cats:0", '"":2', "\xff", "-" * 40, '"' * 40]
    filters = ["width > 100 and format = jpeg", "not (camera ~ canon or lens = \"EF 50mm\")", "date = 2024-05-31T12:30",
               "size >= 2MiB and pixels < 12M", "path ~ '*/[a-z]?.jpg'", "keyword !~ night", "rating=0", "aspect>1.5",
               "photograph = yes", "latitude>48 and longitude<-3.5", "hash = abc", "width >", "((((id=1))))", "taken != 1999-02",
               "caption ~ \"a \\\" b\"", "and", "width > 9223372036854775808"]
    for number, text in enumerate(texts):
        put("query", f"query_{number}", "Q" + text)
    for number, text in enumerate(filters):
        put("query", f"filter_{number}", "F" + text)
    for number, text in enumerate(["2024", "2024-05", "2024-05-31", "2024-05-31T12:30:15", "2024-02-30", "1699", ""]):
        put("query", f"date_{number}", "D" + text)


def collections() -> None:
    """Changes of a sound collection: file, operation, place, bytes."""
    def change(file: int, operation: int, place: int, content: bytes) -> bytes:
        return struct.pack("<BBIB", file, operation, place, len(content)) + content

    put("collection", "sound", b"\0")
    put("collection", "sound_late", b"\1")
    put("collection", "cut_catalog", b"\0" + change(0, 3, 4096, b""))
    put("collection", "no_file", b"\0" + change(0, 5, 0, b""))
    put("collection", "page_header", b"\0" + change(0, 0, 4096, b"\x0d\xff\xff\xff\xff"))
    put("collection", "page_size", b"\0" + change(0, 0, 16, b"\x00\x01"))
    put("collection", "info", b"\0" + change(1, 0, 60, b'"dim": -1'))
    for file in range(8):
        put("collection", f"cut_{file}", b"\1" + change(file, 3, 5, b""))
        put("collection", f"ones_{file}", b"\1" + change(file, 4, 64, b"x" * 32))
        put("collection", f"longer_{file}", b"\1" + change(file, 1, 128, b"\x7f" * 16))


def imports() -> None:
    def npy(header: str, values: bytes) -> bytes:
        text = header.encode() + b" " * (-(10 + len(header) + 1) % 64) + b"\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + values

    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 8), }"
    rows = struct.pack("<16f", *[1, 0, 0, 0, 0, 0, 0, 0], *[0, 2, 0, 0, 0, 0, 0, 0])
    item = {"hash": "0" * 64, "size": 3, "mtime_ns": 1, "width": 4, "height": 5, "format": "jpeg", "caption": "a"}
    facts = {"taken": "2019-07-14T21:30:00", "zone_minutes": 120, "camera": "C", "latitude": 1.5, "longitude": -3,
             "rating": 5, "keywords": ["a", "b"], "look": "0123456789abcdef", "grain": 0.5, "looked_into": "everything"}
    lines = "".join(json.dumps({"path": f"/nowhere/{name}.jpg"} | item | more) + "\n" for name, more in [("a", {}), ("b", facts)])
    info = {"checkpoint": {"name": "fake", "path": "/nowhere", "fingerprint": "0" * 64, "dim": 8}}

    def put_import(name: str, items: str, export: str, array: bytes) -> None:
        put("import", name, items.encode() + b"\0" + export.encode() + b"\0" + array)

    put_import("sound", lines, "", npy(head, rows))
    put_import("other_checkpoint", lines, json.dumps(info), npy(head, rows))
    put_import("only_paths", '{"path": "/nowhere/a"}\n{"path": "../b"}\n', "", npy(head, rows))
    put_import("twice", lines.replace("b.jpg", "a.jpg"), "", npy(head, rows))
    put_import("halves", lines, "", npy(head.replace("f4", "f2"), rows[:32]))
    put_import("doubles", lines, "", npy(head.replace("f4", "f8"), rows * 2))
    put_import("short", lines, "", npy(head, rows)[:-1])
    put_import("huge", lines, "", npy(head.replace("(2, 8)", "(4611686018427387904, 8)"), rows))
    put_import("fortran", lines, "", npy(head.replace("False", "True"), rows))
    put_import("fewer_items", lines.split("\n")[0], "", npy(head, rows))
    put_import("no_array", lines, "", b"")
    put_import("no_direction", lines, "", npy(head, bytes(64)))


def checkpoints() -> None:
    golden = pathlib.Path(__file__).parent.parent / "tests/golden"
    names = ["clip-gelu", "siglip", "align", "bert", "blip2-itm", "colpali", "jina-clip", "long-clip"]
    for number, name in enumerate(names):
        config = golden / name / "config.json"
        if not config.exists():
            continue
        pictures = golden / name / "preprocessor_config.json"
        text = json.dumps(json.loads(config.read_text()))
        more = b"\0" + json.dumps(json.loads(pictures.read_text())).encode() if pictures.exists() else b""
        put("checkpoint", name, bytes([number]) + text.encode() + more)
    put("checkpoint", "empty", b"\0{}")
    put("checkpoint", "array", b"\0[]\0[]")


def tokenizer_folders() -> None:
    """Small files of each kind: WordPiece, pieces by likelihood and by merges."""
    added = [{"id": 0, "content": "[UNK]", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False}]
    words = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4, "photo": 5}
    wordpiece = {"version": "1.0", "added_tokens": added, "normalizer": {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": words}}
    golden = pathlib.Path(__file__).parent.parent / "tests/golden/tokenizers"

    def put_folder(name: str, *files: object) -> None:
        put("tokenizer_folder", name,
            b"\0".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in files))

    put_folder("wordpiece", wordpiece, {"tokenizer_class": "BertTokenizer"})
    put_folder("wordpiece_text", b"", {"tokenizer_class": "BertTokenizer", "do_lower_case": True}, b"", "\n".join(words).encode())
    for name in ["gemma", "bert"]:
        put_folder(name, json.loads((golden / name / "tokenizer.json").read_text()),
                   json.loads((golden / name / "tokenizer_config.json").read_text()))
    put_folder("unknown", {"model": {"type": "WordLevel"}})
    put_folder("empty", b"")
    put_folder("special_tokens", wordpiece, {}, {"cls_token": {"content": "[CLS]"}, "sep_token": "[SEP]"})


def http_server() -> None:
    get = "GET /a?b=c HTTP/1.1\r\nHost: localhost\r\n\r\n"
    post = "POST /a HTTP/1.1\r\nHost: localhost\r\n"
    files = {
        "get": get, "two": get + get, "length": post + "Content-Length: 3\r\n\r\nabc" + get,
        "chunks": post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n" + get,
        "both": post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "other_encoding": post + "Transfer-Encoding: chunked, gzip\r\n\r\n" + get,
        "unknown_encoding": post + "Transfer-Encoding: xchunked\r\n\r\n" + get,
        "two_lengths": post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "expect": post + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "head": get.replace("GET", "HEAD"),
        "old": "GET / HTTP/1.0\r\n\r\n", "no_host": "GET / HTTP/1.1\r\n\r\n", "lines": "\r\n\r\n" + get, "cut": get[:20],
        "long_header": "GET / HTTP/1.1\r\nX: " + "a" * 20000 + "\r\n\r\n", "tls": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "h2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "bad_chunk": post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    }
    for name, content in files.items():
        put("http_server", name, content)


def small_texts() -> None:
    line = '<line xMin="10" yMin="{0}" xMax="90" yMax="{1}">\n<word xMin="10" yMin="{0}" xMax="40" yMax="{1}">con-</word>\n</line>\n'
    page = '<page width="100.0" height="100.0">\n<flow>\n<block xMin="10" yMin="10" xMax="90" yMax="40">\n'
    page += line.format(10, 20) + line.format(22, 32) + "</block>\n</flow>\n</page>\n"
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="2in" height="3cm"><image href="data:image/png;base64,iVBO"/></svg>'
    mrc = "0" * 31 + "590" + "0" * 17 + "DOG|noun\n"
    files = {
        "captions": 'C{"image": "a.jpg", "captions": ["two birds", "a branch"]}\n{"image": "/b.jpg"}\n{"image": "c", "captions": "x"}\n',
        "captions_bad": 'C{"image": "a.jpg", "captions": [1]}\n', "lexicon": "LWord\tBigram\tConc.M\ndog\t0\t4.9\nhot dog\t1\t4.8\nidea\t0\t1.6\n",
        "lexicon_mrc": "L" + mrc * 3, "objects": "L# things\ndog\nfire engine\n", "glove": "Wdog 0.1 0.2\ncat 0.1 0.3\nidea -1 0\n",
        "word2vec": "W3 2\ndog 0.1 0.2\ncat 0.1 0.3\nidea -1 0\n",
        "word2vec_binary": b"W3 2\n" + b"".join(w + b" " + struct.pack("<2f", 0.5, 1) + b"\n" for w in [b"dog", b"cat", b"idea"]),
        "keys": "K# of the house\n\n0123456789abcdef\r\nwrite another-key-of-somebody\n", "keys_short": "Kabc\n",
        "ignore": "I# c\n*.tmp\ndrafts/\n/private\na/**/b\n!keep.jpg\n\\#x\n[a-z]?.jpg\n**/old\n", "ignore_stars": "I" + "*a" * 20 + "\n",
        "towns": "T# c\n45.76\t4.83\tLyon, FR\n-90\t180\tSouth\n", "towns_bad": "T91\t0\tx\n",
        "ratings": "Rtext,rater,rating\na dog,1,7\na dog,2,6\nof,1,1\n", "ratings_wide": "Rtext,image,r1,r2\na,b.jpg,5,5\n",
        "pages": "P<doc>\n" + page * 3 + "</doc>\n", "pages_cut": "P" + page[:100],
        "sentences": "SDr. Who went. \u4f60\u597d\u3002 \"Yes!\" he said... 3.5 m\n\nNext one? a.b.c", "address": "A192.0.2.1", "range": "A2001:db8::/32",
        "url": "Ahttps://a.b/c/d?e#f\n../g", "model_name": "Nowner/name@main", "files": "Nconfig.json\nmodel.safetensors\nvocab.json\n",
        "shards": "Nconfig.json\nmodel.safetensors.index.json\nmodel-00001-of-00002.safetensors\n", "frame": "Nclip.mp4#t=42.041",
        "svg": "V" + svg, "svg_no_size": "V<!-- --><svg viewBox='0 0 1 1'/>", "entities": "H&amp;&#65;&#x110000;&notit;&lt", "empty": "",
    }
    for name, content in files.items():
        put("small_texts", name, content)


def parquet() -> None:
    """Files that Arrow wrote (tools/reference/parquet.py), and pages: codec, width of runs, sixteenth of the size, bytes."""
    golden = pathlib.Path(__file__).parent.parent / "tests/golden/parquet"
    for name in ("damage", "cells-second", "ids", "captions-structs", "nulls-without-statistics",
                 "writing-gzip-dictionary-2", "refused-brotli", "limits"):
        put("parquet", name, (golden / f"{name}.parquet").read_bytes())
    put("parquet", "page_runs", bytes([0, 3, 1, 0x0A, 3, 3, 0x88, 0xC6, 0xFA, 0x20, 5]))
    put("parquet", "page_snappy", bytes([1, 8, 1]) + b"\x10\x04ab\x35\x02")
    put("parquet", "page_gzip", bytes([2, 8, 1]) + zlib.compress(b"abcdabcdabcdabcd"))
    put("parquet", "no_footer", b"PAR1PAR1")
    put("parquet", "short", b"P")


if __name__ == "__main__":
    safetensors()
    parquet()
    torch_file()
    json_fields()
    tokenizer_text()
    tokenizer_files()
    sentencepiece()
    images()
    decoder_reply()
    dataset_records()
    documents()
    http_parts()
    request_bodies()
    queries()
    collections()
    imports()
    checkpoints()
    tokenizer_folders()
    http_server()
    small_texts()
