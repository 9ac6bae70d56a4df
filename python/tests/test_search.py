"""Exact top-k over arrays, and MaxSim, against NumPy."""

import numpy as np
import pytest
from conftest import golden, read_safetensors

import saccade


def unit(count, dim, seed):
    rows = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def by_sorting(rows, queries, k):
    scores = queries.astype(np.float64) @ rows.T.astype(np.float64)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


@pytest.mark.parametrize("dim", [1, 7, 64, 193])
def test_agrees_with_numpy(dim):
    rows, queries = np.random.default_rng(1).normal(size=(2, 500, dim)).astype(np.float32)
    expected, scores = by_sorting(rows, queries, 20)
    indices, found = saccade.search(rows, queries, k=20)
    assert indices.dtype == np.int64 and found.dtype == np.float32 and indices.shape == (500, 20)
    np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-5)
    assert (indices == expected).mean() > 0.999


def test_one_query_and_few_rows():
    rows = unit(3, 8, 2)
    indices, scores = saccade.search(rows, rows[1], k=5)
    assert indices.shape == (5,) and indices[0] == 1
    assert indices[3:].tolist() == [-1, -1] and np.isneginf(scores[3:]).all()


def test_any_number_of_threads_gives_the_same_bits():
    rows, queries = unit(5000, 33, 3), unit(70, 33, 4)
    first = saccade.search(rows, queries, k=9, threads=1)
    for threads in (2, 5):
        again = saccade.search(rows, queries, k=9, threads=threads)
        assert all(np.array_equal(a, b) for a, b in zip(first, again))


def test_ties_go_by_number_and_nan_is_left_out():
    rows = np.ones((6, 4), np.float32)
    rows[2] = np.nan
    assert saccade.search(rows, rows[0], k=6)[0].tolist() == [0, 1, 3, 4, 5, -1]


def test_allowed_rows():
    rows = unit(100, 16, 5)
    allowed = np.arange(100) % 7 == 0
    indices, _ = saccade.search(rows, rows[:3], k=15, allowed=allowed)
    assert allowed[indices].all()
    for wrong, kind in (
        (allowed[:50], saccade.Mismatch),
        (allowed.astype(float), saccade.InvalidInput),
        (allowed[None], saccade.InvalidInput),
    ):
        with pytest.raises(kind):
            saccade.search(rows, rows[:3], allowed=wrong)


def test_lists():
    rows = unit(9, 4, 9)
    assert saccade.search(rows, [])[0].shape == (0, 10)
    indices = saccade.search(rows, rows[0], k=3)[0]
    np.testing.assert_array_equal(saccade.search(rows.tolist(), rows[0].tolist(), k=3)[0], indices)
    allowed = [number != indices[0] for number in range(9)]
    np.testing.assert_array_equal(saccade.search(rows, rows[0], k=2, allowed=allowed)[0], indices[1:])
    for wrong in (dict(k=2.5), dict(k="2"), dict(k=None), dict(k=10**30), dict(metric=None), dict(allowed=[1] * 9)):
        with pytest.raises(saccade.InvalidInput, match=next(iter(wrong))):
            saccade.search(rows, rows, **wrong)


def test_cosine():
    rows = np.random.default_rng(6).normal(size=(50, 12)).astype(np.float32) * 100
    _, scores = saccade.search(rows, rows[7] * 3, k=50, metric="cosine")
    assert scores[0] == pytest.approx(1, abs=1e-6) and scores[-1] >= -1 - 1e-6
    with pytest.raises(saccade.InvalidInput, match="metric"):
        saccade.search(rows, rows, metric="l2")


def test_arrays_are_read_in_place(tmp_path):
    whole = np.random.default_rng(7).normal(size=(1000, 96)).astype(np.float32)
    part = whole[100:900, 32:64]  # rows lie apart
    np.testing.assert_array_equal(
        saccade.search(part, part[:9], k=4)[0], saccade.search(part.copy(), part[:9].copy(), k=4)[0]
    )
    whole.setflags(write=False)
    assert saccade.search(whole, whole[3], k=1)[0][0] == 3
    np.save(tmp_path / "rows.npy", whole)
    assert saccade.search(np.load(tmp_path / "rows.npy", mmap_mode="r"), whole[5], k=1)[0][0] == 5


def test_no_copy_is_made():
    """Half a gigabyte of rows is searched within a tenth of that beside it."""
    resource = pytest.importorskip("resource")
    rows = np.zeros((2_000_000, 64), np.float32)
    rows[:] = 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    saccade.search(rows, rows[:2], k=3)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((3, 4)),
        np.zeros((3, 4), np.float16),
        np.zeros((4, 3), np.float32).T,
        np.zeros((3, 8), np.float32)[:, ::2],
        np.zeros((3, 4), np.float32)[::-1],
        np.zeros((2, 3, 4), np.float32),
        "text",
        object(),
    ],
    ids=["float64", "float16", "transposed", "columns", "backwards", "3d", "text", "object"],
)
def test_wrong_arrays_are_refused(wrong):
    right = np.zeros((2, 4), np.float32)
    with pytest.raises(saccade.InvalidInput):
        saccade.search(wrong, right)
    with pytest.raises(saccade.InvalidInput):
        saccade.search(right, wrong)


def test_what_does_not_fit():
    rows = unit(5, 8, 8)
    with pytest.raises(saccade.Mismatch, match="8"):
        saccade.search(rows, unit(2, 9, 9))
    with pytest.raises(saccade.InvalidInput, match="k is 0"):
        saccade.search(rows, rows, k=0)
    with pytest.raises(saccade.InvalidInput, match=r"\[n, dim\]"):
        saccade.search(rows[0], rows)
    assert saccade.search(rows[:0], rows, k=2)[0].tolist() == [[-1, -1]] * 5
    assert saccade.search(rows, rows[:0], k=2)[0].shape == (0, 2)
    assert saccade.search([[1.0, 0.0], [0.0, 1.0]], [0.1, 0.9], k=1)[0].tolist() == [1]


def test_maxsim():
    rng = np.random.default_rng(10)
    queries = saccade.MultiEmbeddings.of([unit(n, 16, n) for n in (3, 1, 5)])
    items = saccade.MultiEmbeddings.of([rng.normal(size=(n, 16)).astype(np.float32) for n in (4, 7)])
    assert len(queries) == 3 and queries[-1].shape == (5, 16) and [len(one) for one in queries] == [3, 1, 5]
    expected = np.array([[(q @ i.T).max(axis=1).sum() for i in items] for q in queries])
    scores = saccade.maxsim(queries, items)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    np.testing.assert_allclose(saccade.maxsim(queries[0], items), expected[0], rtol=1e-5)
    np.testing.assert_allclose(saccade.maxsim(queries, items[1]), expected[:, 1], rtol=1e-5)
    assert saccade.maxsim(queries[2], items[0]) == pytest.approx(expected[2, 0], rel=1e-5)
    assert np.isneginf(saccade.maxsim(queries[0], saccade.MultiEmbeddings(np.zeros((0, 16), np.float32), [0, 0]))).all()
    with pytest.raises(saccade.Mismatch):
        saccade.maxsim(unit(2, 8, 1), items)
    with pytest.raises(saccade.InvalidInput):
        saccade.MultiEmbeddings(unit(4, 8, 1), [0, 3])


def test_maxsim_of_the_reference():
    """ColPali's golden."""
    expected = read_safetensors(golden("colpali") / "io.safetensors")
    images, texts = expected["image_embeds"], expected["text_embeds"]
    np.testing.assert_allclose(saccade.maxsim(texts[0], images[1]), expected["maxsim"][0, 1], rtol=1e-3)


def test_late_interaction_of_a_model():
    """BLIP-2's golden: eight vectors an image, and a matching head."""
    encoder = saccade.load(golden("blip2-itm"), threads=2)
    assert encoder.has_late_interaction and encoder.has_pair_scorer
    images = [np.random.default_rng(seed).integers(0, 256, (56, 56, 3), np.uint8) for seed in range(3)]
    multi = encoder.encode_images_multi(images, batch_size=2)
    assert len(multi) == 3 and multi[0].shape == (8, encoder.dim)
    np.testing.assert_allclose(np.linalg.norm(multi.rows, axis=1), 1, atol=1e-5)
    # The mean of an image's vectors is its embedding.
    mean = multi[1].mean(axis=0)
    np.testing.assert_allclose(encoder.encode_images(images[1]), mean / np.linalg.norm(mean), atol=1e-5)
    with pytest.raises(saccade.Unsupported, match="tokenizer"):
        encoder.score_pairs(images[:1], ["a bell"])
    with pytest.raises(saccade.Error, match=r"image 1 \("):
        encoder.encode_images_multi([images[0], b"no image"])
