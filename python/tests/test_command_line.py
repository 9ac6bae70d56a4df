"""The same bits as the command line's, where its program is built."""

import json
import os
import subprocess

import numpy as np
import pytest
from conftest import ROOT, golden, picture
from PIL import Image

import saccade

PROGRAM = os.environ.get("SACCADE_PROGRAM", str(ROOT / "build/release/bin/saccade"))
pytestmark = pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason=f"no program {PROGRAM}")


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def test_embeddings(model, starter, pictures, tmp_path):
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (211, 130, 3), np.uint8)).save(pictures / "noise.jpg")
    files = sorted(pictures.iterdir())
    run("embed", "--images", *files, "-m", starter, "-o", tmp_path / "images.npy")
    np.testing.assert_array_equal(model.encode_images(files), np.load(tmp_path / "images.npy"))
    texts = ["a red square", "two birds on a branch", "grün"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    run("embed", "--texts", tmp_path / "texts.txt", "-m", starter, "-o", tmp_path / "texts.npy")
    np.testing.assert_array_equal(model.encode_texts(texts), np.load(tmp_path / "texts.npy"))


def test_answers(starter, photos, pictures, tmp_path):
    for query in ("red", "a dark corner -green", "yellow:2 blue"):
        told = json.loads(run("search", "-c", tmp_path / "photos.saccade", "--json", query))
        hits = photos.search(query)
        assert [(hit["id"], hit["path"], hit["score"]) for hit in told["hits"]] == [
            (hit.id, hit.path, pytest.approx(hit.score, abs=1e-7)) for hit in hits
        ]
    told = json.loads(
        run("search", "-c", tmp_path / "photos.saccade", "--json", "--image", pictures / "red.png", "green")
    )
    hits = photos.search(saccade.Query.image(pictures / "red.png").but("green"))
    assert [hit["id"] for hit in told["hits"]] == [hit.id for hit in hits]
    red = photos.image(pictures / "red.png").id
    like = ["--like", red, "--offset", 1, "--group-above", 1, "green"]
    told = json.loads(run("search", "-c", tmp_path / "photos.saccade", "--json", *like))
    hits = photos.search("green", like=red, offset=1, group_above=1)
    assert [(hit["rank"], hit["id"]) for hit in told["hits"]] == [(hit.rank, hit.id) for hit in hits]
    assert picture("red").shape == (40, 60, 3)


def test_visualness():
    texts = ["a red card", "no use red", "no way blue"]
    told = json.loads(run("visualness", "-m", golden("visualness"), "--json", *texts))
    assert [one["text"] for one in told["texts"]] == texts
    assert saccade.load(golden("visualness")).visualness(texts).tolist() == [one["score"] for one in told["texts"]]


def test_exact_goes_around_an_approximate_index(starter, tmp_path):
    random = np.random.default_rng(3)
    rows = np.tile(random.standard_normal((200, 192)), (100, 1)) + 0.4 * random.standard_normal((20_000, 192))
    (tmp_path / "export").mkdir()
    np.save(tmp_path / "export" / "rows.npy", rows.astype(np.float32))
    items = [json.dumps({"path": f"/{number}.png"}) + "\n" for number in range(len(rows))]
    (tmp_path / "export" / "items.jsonl").write_text("".join(items))
    run("collection", "import", tmp_path / "export", "-c", tmp_path / "c", "-m", starter, "--no-files")
    run("collection", "ann", "-c", tmp_path / "c", "--from", 1)
    photos = saccade.open(tmp_path / "c", create=False)
    query = photos.encoder.encode_texts("red")
    indices, _ = saccade.search(photos.embeddings, query, k=10)
    asked = [
        lambda **options: photos.search("red", keyword_weight=0, **options),
        lambda **options: photos.like(1, **options),
    ]
    for ask in asked:
        assert any(note.startswith("approximate, recall") for note in ask().notes)
        assert not any("approximate" in note for note in ask(exact=True).notes)
    assert [hit.id for hit in asked[0](exact=True)] == photos.ids[indices].tolist()
