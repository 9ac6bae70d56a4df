#!/usr/bin/env python3
r"""Parquet files of every sort that datasets come in, written by Arrow: the fixtures of src/lab/data/readers/parquet_test.cc.

Each file is small. Pictures are bytes of a generator that the test has too (picture()). expected.json has the cells of the
"cells-*" files as Arrow reads them back.

Needs pyarrow:

  python3 tools/reference/parquet.py --out tests/golden/parquet
"""

import argparse
import datetime
import decimal
import json
import math
import pathlib
import shutil

import pyarrow as pa
import pyarrow.parquet as pq

COUNT = 40


def picture(i):
    """Bytes that compress poorly, each time of another length."""
    state, content = 77 + i, bytearray()
    for _ in range(20 + 13 * (i % 11)):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        content.append(state >> 24)
    return bytes(content)


def write(out, name, columns, features="", group_rows=1 << 20, page_bytes=1 << 20, **how):
    table = pa.table(columns)
    if features:
        table = table.replace_schema_metadata({"huggingface": features})
    settings = {"compression": "none", "use_dictionary": False} | how
    pq.write_table(table, out / f"{name}.parquet", row_group_size=group_rows, data_page_size=page_bytes,
                   write_batch_size=2, **settings)


def images(contents, paths):
    return pa.StructArray.from_arrays([pa.array(contents, pa.binary()), pa.array(paths, pa.string())],
                                      ["bytes", "path"])


def texts(values):
    return pa.array(values, pa.string())


def captions():
    all_captions = []
    for i in range(COUNT):
        own = [f"picture {i % 7}"]
        if i % 3 == 0:
            own.append(f"als Bild {i} \u00fc")
        all_captions.append(own)
    return all_captions


def writings(out):
    pictures = images([picture(i) for i in range(COUNT)], [f"{i}.jpg" for i in range(COUNT)])
    columns = {"image": pictures, "captions": pa.array(captions(), pa.list_(pa.string()))}
    small = {"group_rows": 9, "page_bytes": 300}
    for codec in ("none", "snappy", "zstd", "gzip"):
        for dictionary in (False, True):
            for version in ("1.0", "2.0"):
                write(out, f"writing-{codec}-{'dictionary' if dictionary else 'plain'}-{version[0]}", columns,
                      compression=codec, use_dictionary=dictionary, data_page_version=version, **small)
    write(out, "writing-no-statistics", columns, write_statistics=False, **small)
    write(out, "refused-brotli", columns, compression="brotli", **small)
    write(out, "refused-delta", columns, use_dictionary=False, column_encoding={"captions.list.element": "DELTA_BYTE_ARRAY",
                                                                             "image.bytes": "PLAIN", "image.path": "PLAIN"}, **small)
    for name, begin, count in (("train-0", 0, 10), ("train-1", 10, 14), ("test", 24, 16)):
        shard = {key: value.slice(begin, count) for key, value in columns.items()}
        write(out, f"shard-{name}", shard, group_rows=7)
    large = pa.array([bytes(range(256)) * 40 for _ in range(30)], pa.binary())
    write(out, "large", {"image": large, "text": texts([f"t{i}" for i in range(30)])}, compression="snappy",
          page_bytes=1 << 16)


def caption_sorts(out):
    three = images([b"A", b"B", b"C"], ["a.jpg", "b.jpg", "c.jpg"])
    lists = [["one"], ["two", "zwei"], ["three"]]
    one = ["one", '["two", "zwei"]', "three"]
    sentence = pa.struct([("tokens", pa.list_(pa.string())), ("raw", pa.string()), ("sentid", pa.int64())])
    sentences = [[{"tokens": ["x"] * k, "raw": text, "sentid": k} for k, text in enumerate(own)] for own in lists]
    grouped = pa.array([{"ids": "7", "raw": own} for own in lists],
                       pa.struct([("ids", pa.string()), ("raw", pa.list_(pa.string()))]))
    sorts = {
        "text": ("text", texts(one)),
        "large": ("Caption", pa.array(one, pa.large_string())),
        "dictionary": ("text", pa.array(["one", "one", "three"]).dictionary_encode()),
        "bytes": ("caption", pa.array([b"one", b"one", b"three"], pa.binary())),
        "list": ("captions", pa.array(lists, pa.list_(pa.string()))),
        "large-list": ("captions", pa.array(lists, pa.large_list(pa.string()))),
        "structs": ("sentences", pa.array(sentences, pa.list_(sentence))),
        "struct-of-list": ("sentences", grouped),
        "listed-json": ("captions", pa.array([['["x"]'], ["y"], ["z"]], pa.list_(pa.string()))),
    }
    for name, (column, values) in sorts.items():
        write(out, f"captions-{name}", {"image": three, "number": pa.array([1.5, 2.5, 3.5]), column: values},
              use_dictionary=name == "dictionary")
    write(out, "captions-numbered", {"image": three, "caption_0": texts(["a", "b", "c"]), "caption_1": texts(["d", None, "f"])})


def picture_sorts(out):
    words = texts(["one", "two"])
    first, second = images([b"A", b"B"], [None, None]), images([b"C", b"D"], ["c", "d"])
    plain = pa.array([b"A", b"B"], pa.binary())
    alone = pa.StructArray.from_arrays([plain], ["bytes"])
    both = {"image": plain, "scan": pa.array([b"C", b"D"], pa.binary()), "text": words}
    features = {"image": {"dtype": "binary", "_type": "Value"}, "scan": {"_type": "Image"},
                "text": {"dtype": "string", "_type": "Value"}}
    write(out, "pictures-bytes", {"text": words, "jpg": plain})
    write(out, "pictures-struct", {"text": words, "photo": first})
    write(out, "pictures-two", {"thumbnail": first, "text": words, "image": second})
    write(out, "pictures-named", {"front": first, "text": words, "back": second})
    write(out, "pictures-alone", {"text": words, "photo": alone})
    write(out, "pictures-features", both, json.dumps({"info": {"features": features}}))
    write(out, "pictures-no-features", both)
    write(out, "pictures-bad-features", both, "no JSON")


def files_ids_and_nulls(out):
    write(out, "files-train", {"file_name": texts(["1.jpg", "http://example.org/2.jpg", "1.jpg", None]),
                               "text": texts(["a", "b", "c", "d"])})
    write(out, "files-test", {"file_name": texts(["1.jpg"]), "text": texts(["e"])})
    write(out, "files-mixed", {"image": images([None, b"B", None], ["x.png", "y.png", "https://z"]),
                               "text": texts(["a", "b", "c"])})

    def ids(paths, splits):
        return {"cocoid": pa.array([7, 7, 9], pa.int64()), "image": images([b"A", b"A", b"C"], paths),
                "caption": texts(["one", "uno", "three"]), "split": texts(splits),
                "show": pa.array(["p", "p", "q"]).dictionary_encode()}
    write(out, "ids", ids(["a", "a", "c"], ["restval", "restval", None]), use_dictionary=True)
    write(out, "ids-other-file", ids(["a", "b", "c"], ["t", "t", "t"]))
    write(out, "ids-other-split", ids(["a", "a", "c"], ["t", "u", "t"]))
    five = images([b"A", None, b"C", b"D", b"E"], ["a", None, "c", "d", "e"])
    lists = pa.array([["one"], ["lost"], None, [None, "four"], []], pa.list_(pa.string()))
    for statistics in (True, False):
        write(out, f"nulls-{'with' if statistics else 'without'}-statistics", {"image": five, "captions": lists},
              group_rows=2, write_statistics=statistics)
    write(out, "nulls-key", {"image": five, "caption": texts(["a", "b", "c", "d", "e"]),
                             "key": texts(["1", "2", "3", None, "5"])}, group_rows=2)


def errors(out):
    two = images([b"A", b"B"], ["a", "b"])
    doubles = pa.array([1.0, 2.0], pa.float64())
    words = texts(["a", "b"])
    write(out, "error-image", {"image": doubles, "text": words})
    write(out, "error-text", {"image": two, "text": doubles})
    write(out, "error-struct", {"image": two, "text": pa.StructArray.from_arrays([doubles, doubles], ["x", "y"])})
    write(out, "error-no-caption", {"image": two, "words": words})
    write(out, "error-no-image", {"where": doubles, "text": words})
    write(out, "error-id", {"image": two, "text": words, "n": doubles})
    write(out, "error-utf8", {"image": two, "text": pa.array([b"a", b"caf\xe9"], pa.binary())})
    write(out, "limits", {"image": images([b"AAAA", b"B"], ["a", "b"]), "text": words})
    six = [f"w{i % 2}" for i in range(6)]
    write(out, "damage", {"image": images([picture(i) for i in range(6)], six),
                          "captions": pa.array([[word] for word in six], pa.list_(pa.string()))},
          compression="snappy", use_dictionary=True, group_rows=3)


def cell_text(value):
    if value is None or isinstance(value, list):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def cells(out):
    """Columns of every kind that ids, splits and captions may have, with nulls, over several groups and pages."""
    rows = 200
    numbers = [None if i % 5 == 3 else (i * 7919 - 300) for i in range(rows)]
    columns = {
        "i8": pa.array([None if n is None else n % 100 - 50 for n in numbers], pa.int8()),
        "u16": pa.array([None if n is None else n % 60000 for n in numbers], pa.uint16()),
        "i32": pa.array([None if n is None else -n for n in numbers], pa.int32()),
        "u32": pa.array([None if n is None else n % 1000 + 4_000_000_000 for n in numbers], pa.uint32()),
        "i64": pa.array([None if n is None else n * -(10**12) for n in numbers], pa.int64()),
        "u64": pa.array([None if n is None else n % 1000 + 18_000_000_000_000_000_000 for n in numbers], pa.uint64()),
        "f32": pa.array([None if n is None else n / 8 for n in numbers], pa.float32()),
        "f64": pa.array([None if n is None else (math.nan, math.copysign(math.inf, n - 9**6), 0.0, n * 1e300, n / 3)[n % 5] for n in numbers],
                        pa.float64()),
        "truth": pa.array([None if n is None else n % 3 == 0 for n in numbers], pa.bool_()),
        "text": texts([None if i % 4 == 1 else f"row {i % 11}" for i in range(rows)]),
        "lists": pa.array([None if i % 6 == 0 else [None if k == 2 else f"{i}.{k}" for k in range(i % 5)]
                           for i in range(rows)], pa.list_(pa.string())),
        "required": pa.array([f"r{i}" for i in range(rows)], pa.string()),
    }
    schema = pa.schema([pa.field(name, array.type, nullable=name != "required") for name, array in columns.items()])
    table = pa.table(columns, schema=schema)
    expected = {}
    for name, how in {"plain": {"use_dictionary": False}, "dictionary": {"use_dictionary": True},
                      "second": {"use_dictionary": True, "data_page_version": "2.0", "compression": "zstd"}}.items():
        path = out / f"cells-{name}.parquet"
        pq.write_table(table, path, row_group_size=70, data_page_size=200, write_batch_size=8,
                       **({"compression": "snappy"} | how))
        read = pq.read_table(path)
        expected[f"cells-{name}"] = {column: [cell_text(value) for value in read[column].to_pylist()]
                                     for column in read.column_names}
    assert expected["cells-plain"] == expected["cells-dictionary"] == expected["cells-second"]
    (out / "expected.json").write_text(json.dumps(expected["cells-plain"]) + "\n")


def winoground(out):
    """Columns of facebook/winoground, as its hub converts them, with ids as numbers."""
    rows = 3
    columns = {
        "id": pa.array(range(rows), pa.int32()),
        "image_0": images([picture(2 * i) for i in range(rows)], [f"ex_{i}_img_0.png" for i in range(rows)]),
        "image_1": images([picture(2 * i + 1) for i in range(rows)], [f"ex_{i}_img_1.png" for i in range(rows)]),
        "caption_0": texts([f"an old person kisses a young person {i}" for i in range(rows)]),
        "caption_1": texts([f"a young person kisses an old person {i}" for i in range(rows)]),
        "tag": texts(["Adjective-Age", "Noun", "Preposition"]),
        "secondary_tag": texts(["", "Morpheme-Level", ""]),
        "num_main_preds": pa.array([1, 2, 1], pa.int32()),
        "collapsed_tag": texts(["Object", "Both", "Relation"]),
    }
    features = {name: {"_type": "Image"} if name.startswith("image_") else {"dtype": "string", "_type": "Value"}
                for name in columns}
    write(out, "winoground", columns, json.dumps({"info": {"features": features}}), group_rows=2)
    write(out, "winoground-tag", {key: column for key, column in columns.items() if key not in ("id", "collapsed_tag")})
    write(out, "winoground-null", columns | {"image_1": images([b"A", None, b"C"], [None] * rows)})


def mteb(out):
    """Text to image, with names and columns of newer data, and image to text, with those of older data."""
    write(out, "mteb-images", {"id": texts(["i0", "i1", "i2", "i3"]), "modality": texts(["image"] * 4),
                               "image": images([picture(i) for i in range(4)], [None] * 4),
                               "text": texts([None] * 4)}, group_rows=3)
    write(out, "mteb-texts", {"id": texts(["q0", "q1", "q2", "q3", "q4"]), "modality": texts(["text"] * 5),
                              "text": texts(["a cat", "a dog", "two cats", "unjudged", "an animal"]),
                              "image": images([None] * 5, [None] * 5)}, group_rows=2)
    write(out, "mteb-qrels", {"query-id": texts(["q2", "q0", "q1", "q1", "q4", "q4"]),
                              "corpus-id": texts(["i0", "i0", "i1", "i3", "i0", "i1"]),
                              "score": pa.array([1, 1, 1, 0, 1, 2], pa.int32())})
    write(out, "mteb-captions", {"_id": pa.array([10, 11, 12], pa.int64()), "text": texts(["one", "two", "three"])})
    write(out, "mteb-numbered-images", {"_id": pa.array([7, 8, 9], pa.int64()),
                                        "image": images([picture(i) for i in (7, 8, 9)], [None] * 3), "text": pa.nulls(3)})
    write(out, "mteb-numbered-qrels", {"query-id": pa.array([8, 7, 7], pa.int64()), "corpus-id": pa.array([10, 12, 11], pa.int64()),
                                       "score": pa.array([1.0, 1.0, 1.0], pa.float64())})
    write(out, "mteb-lost-qrels", {"query-id": texts(["q0"]), "corpus-id": texts(["i9"]), "score": pa.array([1], pa.int64())})
    write(out, "mteb-both", {"id": texts(["i0"]), "image": images([b"A"], [None]), "text": texts(["a title"])})


def urls(out):
    """Tables of URLs for src/lab/data/fetch/fetch_test.cc, which puts its server's port in place of 55555."""
    rows = 5
    columns = {
        "url": texts([f"http://127.0.0.1:55555/{i}" for i in range(rows - 1)] + [None]),
        "caption": pa.array([[f"caption {i}", f"Bild {i}"] if i % 2 == 0 else [] for i in range(rows)], pa.list_(pa.string())),
        "license": texts(["CC0", "CC1", None, "CC3", "CC4"]),
        "width": pa.array([640, None, 320, 2**40, -1], pa.int64()),
        "score": pa.array([0.1, 2.0, None, math.nan, 1e300], pa.float64()),
        "similarity": pa.array([0.1, 2.0, None, math.inf, -0.25], pa.float32()),
        "nsfw": pa.array([True, False, None, True, False], pa.bool_()),
        "taken": pa.array([datetime.datetime(2020, 1, 1)] * rows, pa.timestamp("us")),
        "day": pa.array([datetime.date(2020, 1, 1)] * rows, pa.date32()),
        "price": pa.array([decimal.Decimal("1.25")] * rows, pa.decimal128(9, 2)),
        "half": pa.array([0.5] * rows, pa.float32()).cast(pa.float16()),
        "box": pa.array([[0.5, 1.5]] * rows, pa.list_(pa.float64())),
    }
    write(out, "urls", columns, group_rows=3, write_statistics=False)
    write(out, "urls-second", columns, group_rows=3, use_dictionary=True, data_page_version="2.0", compression="zstd")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for part in (writings, caption_sorts, picture_sorts, files_ids_and_nulls, errors, cells, winoground, mteb, urls):
        part(out)


if __name__ == "__main__":
    main()
