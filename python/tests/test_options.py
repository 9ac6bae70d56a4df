"""Options: their defaults, names and types in Python are those of the library and of its headers."""

import inspect
import json
import re
import subprocess
import sys
from typing import get_args, get_type_hints

import numpy as np
import pytest
from conftest import ROOT, picture

import saccade
from saccade import _core

HEADERS = ROOT / "src" / "saccade"
NAMES = {  # enum: its header
    "Compose": "compose.h",
    "MapMethod": "map_method.h",
    "Match": "match.h",
    "Metric": "top_k.h",
    "Order": "match.h",
    "Precision": "precision.h",
    "QueryKind": "calibration.h",
    "RerankMethod": "rerank_method.h",
}
# Fields of the library's options that Python has in another way, or not yet.
ELSEWHERE = {"on_progress", "stop"}


def fields(header, struct):
    """Names of the fields of an options struct, as its header has them."""
    body = re.search(rf"^struct {struct} {{\n(.*?)^}};", (HEADERS / header).read_text(), re.DOTALL | re.MULTILINE)[1]
    return set(re.findall(r"^  [\w:<>, ]+ (\w+) =", body, re.MULTILINE))


def defaults(function):
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind == parameter.KEYWORD_ONLY
    }


@pytest.mark.parametrize(
    ("function", "kind", "struct", "library"),
    [
        (saccade.Engine.search, saccade.SearchOptions, "SearchOptions", _core.search_defaults),
        (saccade.Engine.index, saccade.IndexOptions, "IndexOptions", _core.index_defaults),
    ],
)
def test_defaults_are_the_librarys(function, kind, struct, library):
    in_library = library()
    assert set(kind.__annotations__) == set(in_library) == fields("engine.h", struct) - ELSEWHERE
    signature = defaults(function)
    for name, value in in_library.items():
        empty = () if value == [] else None if value == {} else value
        assert signature[name] == empty and type(signature[name]) is type(empty), name
    # In one order, and under the types of the signature.
    assert [name for name in signature if name in in_library] == list(kind.__annotations__) == list(in_library)
    assert {name: function.__annotations__[name] for name in kind.__annotations__} == {
        name: annotation.__forward_arg__ for name, annotation in kind.__annotations__.items()
    }


@pytest.mark.parametrize("name", list(NAMES))
def test_every_value_has_a_name(name):
    body = re.search(rf"^enum class {name} {{\n(.*?)^}};", (HEADERS / NAMES[name]).read_text(), re.DOTALL | re.M)[1]
    values = re.findall(r"^  k\w+,", body, re.MULTILINE)
    names = get_args(getattr(saccade, name))
    assert len(names) == len(set(names)) == len(values) >= 2


def test_the_library_lists_the_same_names(photos, pictures, starter, model):
    red = pictures / "red.png"
    rows = np.eye(2, dtype=np.float32)
    wrong = {
        "MapMethod": lambda: photos.search("a", explain=True, explain_by="?"),
        "Metric": lambda: saccade.search(rows, rows, metric="?"),
        "Order": lambda: photos.search("a", order="?"),
        "Precision": lambda: saccade.load(starter, precision="?"),
        "QueryKind": lambda: photos.calibration("?"),
        "Ties": lambda: saccade.metrics.retrieval(rows, rows, ties="?"),
        "RerankMethod": lambda: photos.search("a", rerank=model, rerank_by="?"),
    }
    for name, call in wrong.items():
        with pytest.raises(saccade.InvalidInput) as raised:
            call()
        listed = str(raised.value).partition(", expected one of ")[2]
        names = get_args(getattr(saccade, name, None) or getattr(saccade.metrics, name))
        assert set(listed.split(", ")) == set(names), str(raised.value)
    for method in get_args(saccade.Compose):
        assert len(photos.search(image=red, but="green", compose=method)) == 4


def test_names_and_defaults_over_http():
    document = json.loads((HEADERS / "serve" / "formats" / "openapi.json").read_text())
    fields_of_search = document["components"]["schemas"]["Search"]["properties"]
    library = _core.search_defaults()
    assert library.keys() <= fields_of_search.keys()
    for name, value in library.items():
        assert fields_of_search[name].get("default", value) == value, name
    for name, kind in {
        "order": saccade.Order,
        "rerank_by": saccade.RerankMethod,
        "explain_by": saccade.MapMethod,
    }.items():
        assert set(fields_of_search[name]["enum"]) == set(get_args(kind))
    # A server names no folders: "composer" is the collection's own.
    assert set(fields_of_search["compose"]["enum"]) == {*get_args(saccade.Compose), "composer"}


def test_options_of_many_calls_can_be_kept(photos):
    options: saccade.SearchOptions = {"k": 2, "order": "date"}
    (answer,) = photos.search_all(["red"], **options)
    assert answer.hits == photos.search("red", **options).hits and len(answer) == 2
    first = answer[0]
    assert [hit.id for hit in photos.like(first.id, **options)] == [
        hit.id for hit in photos.search(like=first.id, **options)
    ]
    for call in (photos.search_all, photos.watch):
        with pytest.raises(TypeError, match=rf"{call.__name__}\(\) got an unexpected keyword argument 'kk'"):
            call(["red"], kk=1)


@pytest.mark.parametrize(
    "options",
    [
        dict(k=2.5),
        dict(k="2"),
        dict(k=None),
        dict(k=10**30),
        dict(offset="1"),
        dict(filter=5),
        dict(filter=None),
        dict(keyword_weight="0.5"),
        dict(keyword_weight=None),
        dict(keyword_weight=float("nan")),
        dict(min_probability="x"),
        dict(group_duplicates="no"),
        dict(group_above=None),
        dict(order=5),
        dict(chunk_long_text=2),
        dict(exact="no"),
        dict(explain=None),
        dict(explain_by=5),
        dict(rerank_by=None),
        dict(rerank="starter"),
    ],
    ids=str,
)
def test_wrong_types_are_named(photos, options):
    (name,) = options
    for call in (lambda: photos.search("red", **options), lambda: photos.search_all(["red"], **options)):
        with pytest.raises(saccade.InvalidInput, match=name):
            call()


def test_numbers_of_numpy_are_taken(photos):
    options = dict(
        k=np.int16(2), offset=np.uint8(0), keyword_weight=np.float32(0.5), group_duplicates=np.bool_(True), explain=0
    )
    assert photos.search("red", **options).hits == photos.search("red", k=2).hits
    assert photos.search("red", k=2.0).hits == photos.search("red", k=2).hits


@pytest.mark.parametrize("threads", [-1, 1025, 10**6, 10**12, "2", 2.5])
def test_threads_have_a_limit(starter, threads, tmp_path):
    """More than the system has would end the process."""
    rows = np.eye(70, dtype=np.float32)
    for call in (
        lambda: saccade.load(starter, threads=threads),
        lambda: saccade.open(tmp_path / "c", threads=threads),
        lambda: saccade.search(rows, rows, threads=threads),
        lambda: saccade.Calibration.learn(rows, rows, [[n] for n in range(70)], kind="image", threads=threads),
        lambda: saccade.metrics.retrieval(rows, rows, threads=threads),
    ):
        with pytest.raises(saccade.InvalidInput, match="threads"):
            call()


def test_wrong_options_of_index(photos, pictures):
    wrong = [
        dict(prune="no"),
        dict(batch_size="8"),
        dict(batch_size=10**12),
        dict(video_seconds=-1),
        dict(video_frames=1001),
        dict(sidecars="no"),
        dict(exclude=5),
        dict(exclude=[5]),
        dict(captions=[("a", "b")]),
        dict(captions={str(pictures / "red.png"): float("nan")}),
    ]
    for options in wrong:
        with pytest.raises(saccade.InvalidInput, match=next(iter(options))):
            photos.index(pictures, **options)
    for paths in (5, None, b"pictures"):
        with pytest.raises(saccade.InvalidInput, match="paths"):
            photos.index(paths)
    with pytest.raises(saccade.InvalidInput, match="paths"):
        photos.watch([])  # would wait for ever
    with pytest.raises(saccade.InvalidInput, match="most"):
        photos.values("format", most=-1)


def test_types(tmp_path):
    """What type checkers say of right and wrong options."""
    pytest.importorskip("mypy", exc_type=ImportError)
    script = tmp_path / "typed.py"
    script.write_text(
        """\
from typing import assert_type
import saccade

photos = saccade.open("photos.saccade")
assert_type(photos.search_all(["a"], k=3, order="date", rerank_by="match"), list[saccade.Answer])
assert_type(photos.search_all(["a"], errors="return"), list[saccade.Answer | saccade.Error])
assert_type(photos.like(1, k=3, explain_by=None), saccade.Answer)
options: saccade.SearchOptions = {"k": 2, "filter": "width>9"}
photos.search("a", **options)
photos.watch(["a"], prune=True, exclude="*.gif")
order: saccade.Order = "date"
photos.search_all(["a"], k="3")  # wrong
photos.search_all(["a"], order="size")  # wrong
photos.search_all(["a"], image="a.jpg")  # wrong
photos.like(1, kk=3)  # wrong
photos.watch(["a"], prune="no")  # wrong
photos.search("a", rerank_by="best")  # wrong
saccade.search([[1.0]], [1.0], metric="l2")  # wrong
"""
    )
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", tmp_path / "cache", script]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False).stdout
    found = sorted({int(number) for number in re.findall(r"typed\.py:(\d+): error", told)})
    lines = script.read_text().splitlines()
    assert found == [number for number, line in enumerate(lines, 1) if line.endswith("# wrong")], told
