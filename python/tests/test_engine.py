"""Collections: index, search, like, embeddings, errors."""

import os
import pickle
import subprocess

import numpy as np
import pytest
from conftest import COLORS, ROOT, picture
from PIL import Image

import saccade


def test_a_new_collection_is_made_by_index(starter, pictures, tmp_path):
    photos = saccade.open(tmp_path / "c", encoder=starter)
    assert not (tmp_path / "c").exists() and len(photos) == 0
    with pytest.raises(saccade.NotFound):
        photos.search("red")
    with pytest.raises(saccade.NotFound, match="create"):
        saccade.open(tmp_path / "c", create=False)
    (pictures / "broken.png").write_bytes(b"no image")
    report = photos.index([pictures])
    assert (report.seen, report.added, report.unchanged) == (5, 4, 0)
    assert [os.path.basename(one.path) for one in report.failed] == ["broken.png"]
    assert isinstance(report.failed[0].error, saccade.Error)
    assert photos.index(str(pictures)).unchanged == 4
    Image.fromarray(picture("red", 61, 41)).save(pictures / "large.png")
    large = photos.index(pictures, max_pixels=61 * 41 - 1).failed[0].error
    assert "61 x 41 pixels are more than max_pixels (2500)" in str(large)
    assert photos.index(pictures, max_pixels=61 * 41, retry_failed=True).added == 1
    (pictures / "large.png").unlink()
    assert photos.index(pictures, prune=True).removed == 1
    with pytest.raises(saccade.InvalidInput, match="max_pixels is 0, expected 1 or more"):
        photos.index(pictures, max_pixels=0)
    assert photos.info.images == len(photos) == 4
    assert photos.info.dim == 192 and photos.info.created.endswith("Z")


def test_search(photos, pictures):
    answer = photos.search("red", k=2)
    assert len(answer) == 2 and answer.searched == 4
    hit = answer[0]
    assert os.path.basename(hit.path) == "red.png" and hit.by_keywords and hit.rank == 1
    assert (hit.width, hit.height, hit.format) == (60, 40, "png")
    assert -1 <= hit.score <= 1 and hit.match == "unknown" and hit.probability is None
    assert answer.tokens.used >= 1 and answer.tokens.dropped == 0
    assert [one.id for one in answer] == [one.id for one in answer.hits]
    assert [os.path.basename(one.path) for one in photos.search("red", filter="path~green")] == ["green.png"]
    none = photos.search("red", filter="width>=1000")
    assert none.hits == [] and any("no image meets width>=1000" in note for note in none.notes)


@pytest.mark.parametrize("kind", ["path", "bytes", "array", "pillow"])
def test_search_by_image(photos, pictures, kind):
    path = pictures / "blue.png"
    image = {"path": path, "bytes": path.read_bytes(), "array": picture("blue"), "pillow": Image.open(path)}[kind]
    best = photos.search(image=image, k=1)[0]
    assert os.path.basename(best.path) == "blue.png" and best.score == pytest.approx(1, abs=1e-4)


def test_composed_queries(photos, pictures):
    red = pictures / "red.png"
    queries = [
        saccade.Query.image(red).but("but green"),
        saccade.Query("a square").without("red", "blue"),
        saccade.Query("red").and_image(red, 0.5).and_image(pictures / "blue.png", -1),
        saccade.Query.image(red).but("a green square").was("a red square").compose("direction"),
        saccade.Query('"-red"', literal=True),
    ]
    for query in queries:
        assert len(photos.search(query)) == 4
    moved = dict(image=red, but="a green square", compose="direction")
    assert photos.search(**moved, was="a red square").hits == photos.search(queries[3]).hits
    same = photos.search(image=red, but="but green")
    assert [(hit.id, hit.score) for hit in same] == [(hit.id, hit.score) for hit in photos.search(queries[0])]
    assert photos.search("a square", without=["red", "blue"]).hits == photos.search(queries[1]).hits
    weights = [photos.search(image=red, but="green", compose="sum", text_weight=w)[0].score for w in (0, 1)]
    assert weights[0] == pytest.approx(1, abs=1e-4) and weights[1] < 0.9
    first = saccade.Query("a")
    assert first.without("b") is not first and first._unwanted == ()


def test_a_composer_of_a_folder(photos, pictures):
    composer = ROOT / "models" / "starter-composer"
    by_sum = photos.search(image=pictures / "red.png", but="green", compose="sum")
    composed = photos.search(image=pictures / "red.png", but="green", compose=composer)
    assert any("the composer starter-composer" in note for note in composed.notes)
    assert composed[0].score != by_sum[0].score
    query = saccade.Query.image(pictures / "red.png").but("green").compose(str(composer))
    assert [hit.score for hit in photos.search(query)] == [hit.score for hit in composed]
    assert photos.search(query.compose("sum"))[0].score == by_sum[0].score
    with pytest.raises(saccade.InvalidInput, match="text_weight"):
        query.compose(composer, 0.5)
    for wrong in ("", "product"):
        with pytest.raises(saccade.InvalidInput, match="expected sum, slerp, direction, starter, or the folder"):
            photos.search(image=pictures / "red.png", but="green", compose=wrong)


def test_reranking(photos, pictures, model):
    plain = photos.search("a red square", keyword_weight=0)
    assert not any(hit.reranked for hit in plain)
    # The same model reads the files again, and says the same.
    again = photos.search("a red square", keyword_weight=0, rerank=model, rerank_by="cosine")
    assert [hit.id for hit in again] == [hit.id for hit in plain] and all(hit.reranked for hit in again)
    assert [hit.score for hit in again] == pytest.approx([hit.score for hit in plain], abs=1e-4)
    two = photos.search("a red square", rerank=model, rerank_depth=2)
    assert [hit.reranked for hit in two] == [True, True, False, False]
    os.remove(plain[0].path)
    gone = photos.search("a red square", keyword_weight=0, rerank=photos.encoder)
    assert gone[3].id == plain[0].id and not gone[3].reranked
    assert any("1 of 4 images could not be re-ranked" in note for note in gone.notes)
    for wrong in (dict(rerank="starter"), dict(rerank=model, rerank_by="best"), dict(rerank=model, rerank_depth=0)):
        with pytest.raises(saccade.InvalidInput):
            photos.search("red", **wrong)
    with pytest.raises(saccade.Unsupported):
        photos.search("red", rerank=model, rerank_by="match")


def test_explanations(photos, model):
    assert photos.search("red")[0].explanations == []
    best = photos.search("a red square", k=1, explain=True)[0]
    (why,) = best.explanations
    assert why.model == "starter" and why.method == "legrad" and why.no_map == ""
    assert [word for word, _ in why.words] == ["a", "red", "square"]
    assert why.score == pytest.approx(best.score, abs=1e-4)
    assert why.map.ndim == 2 and why.map.sum() == pytest.approx(1, abs=1e-4) and len(why.box) == 4
    both = photos.search("a red square", k=1, explain=True, explain_by="chefer", rerank=model)[0].explanations
    assert [each.method for each in both] == ["chefer", "chefer"]
    for wrong in (dict(explain=True, explain_by="gradcam"), dict(explain_by="chefer")):
        with pytest.raises(saccade.InvalidInput, match="explain"):
            photos.search("red", **wrong)


def test_pages_and_near_duplicates(photos):
    whole = photos.search("a red square")
    assert photos.search("a red square", k=2, offset=1).hits == whole.hits[1:3]
    assert [hit.rank for hit in photos.like(whole[0].id, k=1, offset=1)] == [2]
    (one,) = photos.search("a red square", group_above=0)
    assert len(one.near_duplicates) == 3


def test_wrong_queries(photos, pictures):
    wrong = [
        dict(),
        dict(query="red", but="green"),
        dict(query=5),
        dict(query="red", k=0),
        dict(query="red", offset=-1),
        dict(query="red", group_above=2),
        dict(query="red", exact_rescore=-1),
        dict(query="red", filter="colour=blue"),
        dict(query="red", keyword_weight=2),
        dict(query="red", min_probability=-1),
        dict(query="red", order="size"),
        dict(image=pictures / "red.png", but="x", compose="product"),
        dict(image=pictures / "red.png", but="x", was="y"),
        dict(query="red", text_weight=0.5),
        dict(query=saccade.Query("a").and_image(pictures / "red.png", 0)),
    ]
    for arguments in wrong:
        with pytest.raises(saccade.InvalidInput):
            photos.search(**arguments)
    with pytest.raises(saccade.NotFound, match="gone.png"):
        photos.search(image=pictures / "gone.png")
    with pytest.raises(saccade.Error):
        photos.search(image=b"no image")


def test_like(photos, pictures):
    red = photos.image(pictures / "red.png")
    assert photos.image(red.id) == red and photos.image(str(pictures / "red.png")).hash == red.hash
    found = photos.like(red.id)
    assert len(found) == 3 and red.id not in [hit.id for hit in found]
    again = photos.like(red.id, rerank=photos.encoder, explain=True)
    assert [hit.id for hit in again] == [hit.id for hit in found] and all(hit.reranked for hit in again)
    assert len(again[0].explanations) == 2 and again[0].explanations[0].words == []
    blue = photos.search("but blue", like=red.id)
    assert len(blue) == 3 and red.id not in [hit.id for hit in blue]
    assert blue.hits == photos.search(saccade.Query("but blue").like(red.id)).hits
    with pytest.raises(saccade.InvalidInput, match="one image is enough"):
        photos.search(image=red.path, like=red.id)
    with pytest.raises(saccade.NotFound):
        photos.search(like=999)
    with pytest.raises(saccade.InvalidInput, match="id is None"):
        photos.like(None, filter="width>0")  # no list of all images
    for unknown in (0, -1, 2**63):
        with pytest.raises(saccade.NotFound):
            photos.like(unknown)
    with pytest.raises(saccade.NotFound):
        photos.like(999)
    with pytest.raises(saccade.NotFound):
        photos.image(999)


def test_embeddings_are_a_read_only_map(photos, pictures):
    rows, ids = photos.embeddings, photos.ids
    assert rows.shape == (4, 192) and rows.dtype == np.float32 and ids.dtype == np.int64
    assert not rows.flags.writeable and not rows.flags.owndata
    with pytest.raises(ValueError):
        rows[0, 0] = 1
    image = photos.image(pictures / "green.png")
    assert ids[image.row] == image.id
    np.testing.assert_allclose(rows[image.row], photos.encoder.encode_images(image.path), atol=1e-5)
    query = photos.encoder.encode_texts("green")
    indices, scores = saccade.search(rows, query, k=4)
    by_row = {hit.id: hit.score for hit in photos.search("green", keyword_weight=0)}
    assert [by_row[ids[index]] for index in indices] == scores.tolist()
    kept = rows.copy()
    photos.remove(image.id)
    assert len(photos) == 3 and photos.ids[image.row] == 0
    del photos
    np.testing.assert_array_equal(rows, kept)  # as it was


def test_large_jpegs_are_decoded_at_a_reduced_size_unless_asked(starter, model, tmp_path):
    (tmp_path / "large").mkdir()
    path = tmp_path / "large" / "a.jpg"
    cells = np.random.default_rng(1).integers(0, 256, (100, 100, 3), np.uint8)
    Image.fromarray(cells.repeat(4, 0).repeat(4, 1)).save(path)
    engines = {}
    for exact in (False, True):
        engines[exact] = saccade.open(tmp_path / f"exact-{exact}", encoder=starter, exact_decode=exact)
        assert engines[exact].index(path).added == 1
        assert engines[exact].search(image=path)[0].score == pytest.approx(1, abs=1e-5)
    row = model.encode_images(path)
    np.testing.assert_allclose(engines[True].embeddings[0], row, atol=1e-6)
    assert np.abs(engines[False].embeddings[0] - row).max() > 1e-5
    with pytest.raises(saccade.InvalidInput, match="exact-decode"):
        saccade.open(tmp_path / "exact-False", exact_decode=True)
    assert len(pickle.loads(pickle.dumps(engines[True]))) == 1


def test_remove_and_images(photos):
    listed = photos.images()
    assert [image.id for image in listed] == sorted(image.id for image in listed) and len(listed) == 4
    assert [os.path.basename(image.path) for image in photos.images("path~blue")] == ["blue.png"]
    with pytest.raises(saccade.NotFound):
        photos.remove([listed[0].id, 999])
    assert len(photos) == 4
    photos.remove(image.id for image in listed[:2])
    assert [image.id for image in photos.images()] == [image.id for image in listed[2:]]


def test_captions_prune_and_exclude(photos, pictures):
    (pictures / "yellow.png").unlink()
    Image.fromarray(picture("red", 64, 64)).save(pictures / "square.png")
    report = photos.index(pictures, exclude="square.*")
    assert (report.added, report.missing, report.removed) == (0, 1, 0)
    report = photos.index(pictures, prune=True, captions={str(pictures / "square.png"): "a tomato"})
    assert (report.added, report.removed) == (1, 1)
    assert photos.image(pictures / "square.png").caption == "a tomato"
    assert photos.search("tomato")[0].caption == "a tomato"


def test_a_model_of_its_own_is_refused(photos, tmp_path):
    from conftest import golden

    address = tmp_path / "photos.saccade"
    with pytest.raises(saccade.Mismatch):
        saccade.open(address, encoder=golden("clip-gelu"))
    again = saccade.open(address, create=False, encoder=photos.encoder)
    assert again.search("red").hits == photos.search("red").hits


def test_refresh_and_pickle(photos, pictures, tmp_path):
    reader = pickle.loads(pickle.dumps(photos))
    assert reader.search("red").hits == photos.search("red").hits
    Image.fromarray(picture("red", 64, 64)).save(pictures / "square.png")
    photos.index(pictures)
    assert len(reader) == 4
    reader.refresh()
    assert len(reader) == 5
    assert "5 images" in repr(reader)


def test_paths_of_any_bytes(photos, pictures):
    name = os.fsencode(pictures) + b"/odd \xff name.png"
    Image.fromarray(picture("red", 80, 80)).save(os.fsdecode(name))
    assert photos.index(pictures).added == 1
    hit = photos.search(image=picture("red", 80, 80), k=1, group_duplicates=False)[0]
    assert os.fsencode(photos.image(os.fsdecode(name)).path) == name
    assert os.path.exists(hit.path)


def test_home_folder(starter, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "Pictures").mkdir()
    Image.fromarray(picture("red")).save(tmp_path / "Pictures" / "red.png")
    photos = saccade.open("~/photos.saccade", encoder=starter)
    assert photos.index("~/Pictures").added == 1
    assert (tmp_path / "photos.saccade").is_dir()


def test_watch_follows_until_the_callback_raises(photos, pictures):
    import threading

    seen = []

    def on_change(report):
        seen.append(report)
        if sum(one.added for one in seen) >= 1:
            raise StopIteration

    def later():
        Image.fromarray(picture("blue", 90, 90)).save(pictures / "new.png")

    timer = threading.Timer(1.0, later)
    timer.start()
    with pytest.raises(StopIteration):
        photos.watch(pictures, on_change)
    timer.join()
    photos.refresh()
    assert len(photos) == len(COLORS) + 1


def test_many_queries(photos, pictures):
    red = pictures / "red.png"
    queries = [
        "red",
        saccade.Query("a square").without("blue"),
        saccade.Query.image(red),
        saccade.Query.image(picture("blue")).but("but green"),
        saccade.Query("but blue").like(photos.image(red).id),
        *(f"a square {i}" for i in range(70)),
    ]
    seen = []
    answers = photos.search_all(iter(queries), k=2, progress=lambda done, total, what: seen.append((done, total, what)))
    assert seen[-1] == (len(queries), len(queries), "searching")
    assert len(answers) == len(queries)
    for query, answer in zip(queries, answers, strict=True):
        alone = photos.search(query, k=2)
        assert [hit.id for hit in answer] == [hit.id for hit in alone] and answer.notes == alone.notes
        # The same numbers, but for the last digits on processors without AVX-512.
        assert [hit.score for hit in answer] == pytest.approx([hit.score for hit in alone], abs=1e-6)
    assert photos.search_all([]) == []
    explained = photos.search_all(queries[:2], explain=True)
    assert [one[0].explanations[0].method for one in explained] == ["legrad"] * 2

    wrong = ["red", 5, saccade.Query.image(pictures / "gone.png"), "green", saccade.Query().like(999), ""]
    some = photos.search_all(wrong, errors="return")
    assert [isinstance(one, saccade.Answer) for one in some] == [True, False, False, True, False, False]
    kinds = [saccade.InvalidInput, saccade.NotFound, saccade.NotFound, saccade.InvalidInput]
    assert [type(some[i]) for i in (1, 2, 4, 5)] == kinds
    assert [one.index for one in some if isinstance(one, saccade.Error)] == [1, 2, 4, 5]
    assert [hit.id for hit in some[3]] == [hit.id for hit in photos.search("green")]
    with pytest.raises(saccade.NotFound, match="gone.png") as raised:
        photos.search_all(wrong[:1] + wrong[2:])
    assert raised.value.index == 1
    with pytest.raises(saccade.InvalidInput) as raised:
        photos.search_all(wrong)
    assert raised.value.index == 1
    for options in (dict(k=0), dict(filter="colour=blue"), dict(errors="skip"), dict(rerank="starter")):
        with pytest.raises(saccade.InvalidInput):
            photos.search_all(["red"], **options)
    with pytest.raises(saccade.InvalidInput, match="expected a list"):
        photos.search_all("red")
    with pytest.raises(TypeError):
        photos.search_all(["red"], image=red)


def test_texts_of_any_content(photos, pictures):
    lone = "a \udc80 bell"
    right = lone.replace("\udc80", "\ufffd")
    assert photos.search(lone).hits == photos.search(right).hits
    assert photos.search("a", without=lone).hits == photos.search("a", without=right).hits
    (answer,) = photos.search_all([lone])
    assert [hit.id for hit in answer] == [hit.id for hit in photos.search(right)]
    odd = os.fsdecode(os.fsencode(pictures) + b"/odd \xff.png")
    Image.fromarray(picture("red", 80, 80)).save(odd)
    assert photos.index(pictures, exclude="odd*").added == 0
    assert photos.index(pictures, exclude=[os.path.basename(odd)]).added == 0
    assert photos.index(pictures, captions={odd: lone}).added == 1
    assert photos.image(odd).caption == right


def test_only_numbers_are_ids(photos):
    ids = [image.id for image in photos.images()]
    for wrong in ("1", b"1", 1.5, ["1"], [None], None):
        with pytest.raises(saccade.InvalidInput, match="id"):
            photos.remove(wrong)
    with pytest.raises(saccade.InvalidInput, match="id"):
        photos.search(like="1")
    for unknown in (2**70, -(2**70), 0):
        with pytest.raises(saccade.NotFound):
            photos.remove(unknown)
        with pytest.raises(saccade.NotFound):
            photos.image(unknown)
    assert [image.id for image in photos.images()] == ids
    photos.remove(np.array(ids[:1]))
    photos.remove(np.int32(ids[1]))
    assert [image.id for image in photos.images()] == ids[2:]
    photos.remove([])


def test_an_open_file_is_read_once(photos, pictures):
    with open(pictures / "blue.png", "rb") as file:
        query = saccade.Query.image(file)
    assert photos.search(query).hits == photos.search(query).hits == photos.search(image=pictures / "blue.png").hits
    with open(pictures / "blue.png") as file, pytest.raises(saccade.InvalidInput, match="binary"):
        photos.search(image=file)
    assert repr(query.but("at night").without("rain")) == "Query('at night', 1 images, without ['rain'])"


def test_tables_are_no_lists(photos, model):
    pandas = pytest.importorskip("pandas", exc_type=ImportError)
    column = pandas.Series(["red", "a bell"], index=[7, 9])
    table = pandas.DataFrame({"text": column})
    assert [one.hits for one in photos.search_all(column)] == [photos.search(text).hits for text in column]
    np.testing.assert_array_equal(model.encode_texts(column), model.encode_texts(list(column)))
    for call in (photos.search_all, model.encode_texts, model.encode_images, model.encode, photos.index):
        with pytest.raises(saccade.InvalidInput, match="DataFrame"):
            call(table)
    some = photos.search_all(pandas.Series(["red", None]), errors="return")
    assert isinstance(some[1], saccade.InvalidInput) and some[1].index == 1
    assert list(pandas.DataFrame(photos.search("red"))["rank"]) == [1, 2, 3, 4]
    assert photos.index(pandas.Series([photos.images()[0].path])).unchanged == 1


def test_hits_can_be_members_of_sets(photos):
    assert len({*photos.search("red"), *photos.search("red")}) == 4


def test_one_writer_in_a_thread(photos, pictures):
    """A progress function that indexes would wait for itself."""
    Image.fromarray(picture("red", 64, 64)).save(pictures / "square.png")
    found = []

    def progress(done, total, what):
        found.append(len(photos.search("red")))
        photos.remove(1)

    with pytest.raises(saccade.Cancelled, match="this thread"):
        photos.index(pictures, progress=progress)
    assert found and 1 in [image.id for image in photos.images()]
    photos.index(pictures)
    assert len(photos) == 5


def test_another_working_directory(starter, pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(saccade.InvalidInput, match="an empty address"):
        saccade.open("")
    photos = saccade.open("c", encoder=os.path.relpath(starter))
    photos.index("pictures")
    kept = pickle.dumps(photos)
    monkeypatch.chdir(pictures)
    assert len(photos.search("red")) == len(pickle.loads(kept).search("red")) == 4
    again = pickle.loads(pickle.dumps(photos.encoder))
    assert again.fingerprint == photos.info.fingerprint


def test_videos(starter, tmp_path):
    (tmp_path / "videos").mkdir()
    made = "ffmpeg -nostdin -v error -f lavfi -i color=red:s=64x48:d=2:r=10 -c:v mpeg4".split()
    try:
        subprocess.run([*made, tmp_path / "videos" / "clip.mp4"], check=True)
    except FileNotFoundError:
        pytest.skip("there is no ffmpeg")
    photos = saccade.open(tmp_path / "c", encoder=starter)
    assert photos.index(tmp_path / "videos", video_frames=0).added == 0
    assert photos.index(tmp_path / "videos").added == 1
    assert "clip.mp4#t=" in photos.images()[0].path
