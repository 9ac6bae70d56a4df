"""Figures of retrieval, against the goldens, sorting by hand, and saccade-lab."""

import json

import numpy as np
import pytest
from conftest import golden, laboratory, read_safetensors

import saccade

NAMES = ["r1", "r5", "r10", "recall1", "recall5", "recall10", "mrr", "ndcg10", "map", "mean_rank", "median_rank"]


def unit(count, dim, seed):
    rows = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def task():
    return read_safetensors(golden("retrieval") / "unit.safetensors")


def test_goldens(task):
    """What a reference computed by sorting the whole matrix."""
    found = saccade.metrics.retrieval(task["image_embeds"], task["text_embeds"], task["text_image"], resamples=100)
    expected = json.loads((golden("retrieval") / "figures.json").read_text())["unit"]["all"]
    for direction, figures in ((found.text_to_image, expected["t2i"]), (found.image_to_text, expected["i2t"])):
        assert list(direction) == NAMES
        assert direction.queries == figures["queries"]
        for name in NAMES:
            figure = direction[name]
            assert figure.value == pytest.approx(figures[name], abs=1e-9), name
            assert figure.low <= figure.value <= figure.high and figure.bca_low <= figure.bca_high
    assert found.image_to_text.several_right == 40 and found.text_to_image.gallery == 40
    assert f"{found.text_to_image['r1']}".startswith("0.752 [0.")
    assert len(str(found).splitlines()) == 12


def test_all_forms_of_relevance_are_one(task):
    images, texts, owner = task["image_embeds"], task["text_embeds"], task["text_image"]
    matrix = np.zeros((len(texts), len(images)), bool)
    matrix[np.arange(len(texts)), owner] = True
    pairs = np.stack([np.arange(len(texts)), owner], axis=1)
    first = saccade.metrics.retrieval(images, texts, owner, resamples=50)
    for relevance in (owner.tolist(), owner.astype(np.int32), pairs, pairs[::-1], pairs.tolist(), matrix):
        again = saccade.metrics.retrieval(images, texts, relevance, resamples=50)
        assert again.text_to_image.figures == first.text_to_image.figures
        assert again.image_to_text.figures == first.image_to_text.figures
    scores = texts @ images.T
    again = saccade.metrics.retrieval_from_scores(scores, owner, resamples=50)
    assert again.text_to_image["r5"].value == pytest.approx(first.text_to_image["r5"].value, abs=0.01)


def test_by_sorting():
    images, texts = unit(30, 16, 1), unit(30, 16, 2)
    texts = texts + images
    order = np.argsort(-(texts @ images.T), axis=1)
    ranks = 1 + (order == np.arange(30)[:, None]).argmax(axis=1)
    found = saccade.metrics.retrieval(images, texts, resamples=0).text_to_image
    np.testing.assert_array_equal(found.ranks, ranks)
    assert found["r5"].value == np.mean(ranks <= 5) and found["mrr"].value == pytest.approx(np.mean(1 / ranks))
    assert found["r5"].low is None
    assert found.chance["r1"] == pytest.approx(1 / 30) and found.chance["mean_rank"] == pytest.approx(15.5)


def test_seeds_and_threads(task):
    arguments = task["image_embeds"], task["text_embeds"], task["text_image"]
    first = saccade.metrics.retrieval(*arguments, threads=1, seed=3).text_to_image.figures
    assert first == saccade.metrics.retrieval(*arguments, threads=4, seed=3).text_to_image.figures
    assert first != saccade.metrics.retrieval(*arguments, seed=4).text_to_image.figures
    wide = saccade.metrics.retrieval(*arguments, confidence=0.99, seed=3).text_to_image["r1"]
    assert wide.low < first["r1"].low and wide.high > first["r1"].high


def test_queries_without_an_answer_and_small_galleries():
    images, texts = unit(4, 8, 1), unit(6, 8, 2)
    found = saccade.metrics.retrieval(images, texts, [0, 1, 2, -1, 2, -1], resamples=0)
    assert found.text_to_image.queries == 4 and found.text_to_image.without_answer == 2
    assert np.isnan(found.text_to_image.ranks[[3, 5]]).all()
    assert found.image_to_text.queries == 3 and found.image_to_text.several_right == 1
    assert found.text_to_image["r5"].value is None and found.text_to_image["r1"].value is not None
    assert f"{found.text_to_image['r10']}" == "-"


def test_ties():
    images = np.ones((4, 2), np.float32)
    texts = np.ones((4, 2), np.float32)
    value = {
        ties: saccade.metrics.retrieval(images, texts, resamples=0, ties=ties).text_to_image["r1"].value
        for ties in ("pessimistic", "optimistic", "mean", "index")
    }
    assert value == {"pessimistic": 0, "optimistic": 1, "mean": 0, "index": 0.25}
    ids = ["b", "d", "a", "c"]
    trec = saccade.metrics.retrieval(images, texts, resamples=0, ties="trec", image_ids=ids, text_ids=ids)
    assert trec.text_to_image.ranks.tolist() == [3, 1, 4, 2]


def test_late_interaction():
    texts = saccade.MultiEmbeddings.of([unit(3, 8, seed) for seed in range(12)])
    images = saccade.MultiEmbeddings.of([unit(5, 8, 100 + seed) for seed in range(12)])
    found = saccade.metrics.retrieval(images, texts, resamples=0)
    scores = saccade.maxsim(texts, images)
    expected = 1 + (scores > np.diag(scores)[:, None]).sum(axis=1)
    np.testing.assert_array_equal(found.text_to_image.ranks, expected)


def test_wrong_arguments(task):
    images, texts, owner = task["image_embeds"], task["text_embeds"], task["text_image"]
    wrong = [
        (saccade.InvalidInput, (images, texts), {}),
        (saccade.InvalidInput, (images, texts, owner[:5]), {}),
        (saccade.InvalidInput, (images, texts, owner.astype(float)), {}),
        (saccade.InvalidInput, (images, texts, np.zeros((3, 4), bool)), {}),
        (saccade.InvalidInput, (images, texts, owner), {"resamples": -1}),
        (saccade.InvalidInput, (images, texts, owner), {"confidence": 1}),
        (saccade.InvalidInput, (images, texts, owner), {"ties": "fair"}),
        (saccade.InvalidInput, (images, texts, owner), {"ties": "trec"}),
        (saccade.InvalidInput, (images.astype(float), texts, owner), {}),
        (saccade.BadData, (images, texts, owner + 1000), {}),
        (saccade.BadData, (np.full_like(images, np.nan), texts, owner), {}),
        (saccade.Mismatch, (images[:, :5], texts, owner), {}),
    ]
    for kind, arguments, options in wrong:
        with pytest.raises(kind):
            saccade.metrics.retrieval(*arguments, **options)


def test_same_figures_as_the_laboratory(task, tmp_path):
    """The figures and intervals of `eval retrieval` over the same embeddings, to the last digit."""
    told = laboratory("retrieval", "unit", tmp_path / "run", "--embeddings", golden("retrieval") / "unit.safetensors")
    found = saccade.metrics.retrieval(task["image_embeds"], task["text_embeds"], task["text_image"])
    for name, direction in (("t2i", found.text_to_image), ("i2t", found.image_to_text)):
        for figure in NAMES:
            expected = told[name][figure]
            assert (direction[figure].value, direction[figure].low, direction[figure].high) == (
                expected["value"],
                expected["low"],
                expected["high"],
            ), (name, figure)


def test_shares_of_zero_and_one_have_wilsons_interval():
    """25 of 25: 25 / (25 + 1.96^2), and none of 25. A mean rank of 1 is no share."""
    rows = unit(25, 16, 5)
    found = saccade.metrics.retrieval(rows, rows, resamples=50).text_to_image
    assert f"{found['r1']}" == "1.000 [Wilson 0.867]"
    assert found["mean_rank"].value == 1 and found["mean_rank"].wilson_low is None
    assert f"{saccade.metrics.retrieval(rows, -rows, resamples=50).text_to_image['r1']}" == "0.000 [Wilson 0.133]"
