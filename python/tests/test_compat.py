"""Other packages' interfaces, with the real packages where they are installed."""

import asyncio

import numpy as np
import pytest
from conftest import COLORS, laboratory_on, picture
from PIL import Image

import saccade

TEXTS = [f"a {color} square" for color in COLORS]


@pytest.fixture(scope="module")
def images():
    return [Image.fromarray(picture(color)) for color in COLORS]


def test_open_clip(model, starter, images):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from saccade.compat import open_clip

    clip, train, transform = open_clip.create_model_and_transforms(str(starter))
    assert train is transform
    tokenizer = open_clip.get_tokenizer(clip)
    with torch.no_grad():
        pixels = torch.stack([transform(image) for image in images])
        tokens = tokenizer(TEXTS)
        image_features = clip.eval().to("cpu").encode_image(pixels)
        text_features = clip.encode_text(tokens, normalize=True)
        probabilities = (clip.logit_scale.exp() * image_features @ text_features.T).softmax(dim=-1)
    assert (
        pixels.shape[1:] == (3, *clip.image_size) and tokens.shape == (4, model.context) and tokens.dtype == torch.int64
    )
    np.testing.assert_allclose(image_features, model.encode_images(images), atol=1e-5)
    np.testing.assert_allclose(text_features, model.encode_texts(TEXTS), atol=1e-5)
    assert clip.logit_scale.exp().item() == pytest.approx(model.logit_scale, rel=1e-5)
    np.testing.assert_allclose(probabilities.sum(dim=1), 1, atol=1e-5)
    with pytest.raises(NotImplementedError):
        clip.train()


@pytest.fixture
def clip_benchmark(starter, images):
    """CLIP_benchmark's model, transform and tokenizer over ours, and twelve images."""
    pytest.importorskip("torch", reason="torch is not installed")
    models = pytest.importorskip("clip_benchmark.models", reason="clip_benchmark is not installed")
    from saccade.compat import open_clip

    models.TYPE2FUNC["saccade"] = open_clip.load_clip_benchmark
    made = models.TYPE2FUNC["saccade"](str(starter))
    # Images and captions all differ: CLIP_benchmark leaves the order of equal scores to torch.
    noise = np.random.default_rng(4)
    images = [
        Image.fromarray(np.clip(np.asarray(image).astype(int) + noise.integers(-60, 60, (40, 60, 3)), 0, 255).astype(np.uint8))
        for image in images * 3
    ]
    return *made, images


def test_clip_benchmark_retrieval(model, clip_benchmark, tmp_path):
    """Its figures are ours, and those of `saccade-lab eval retrieval` on the same images and captions."""
    import torch
    from clip_benchmark.metrics import zeroshot_retrieval

    clip, transform, tokenizer, images = clip_benchmark
    pixels = [transform(image) for image in images]
    captions = [[f"a {color} square {n}", f"{color} paint {n}"] for n, color in enumerate(list(COLORS) * 3)]
    loader = [(torch.stack(pixels[i : i + 5]), captions[i : i + 5]) for i in range(0, 12, 5)]
    theirs = zeroshot_retrieval.evaluate(clip, loader, tokenizer, "cpu", amp=False, recall_k_list=[1, 5, 10])
    texts = [caption for several in captions for caption in several]
    owner = np.repeat(np.arange(12), 2)
    ours = saccade.metrics.retrieval(
        model.encode_images(images), model.encode_texts(texts), owner, resamples=0, ties="optimistic"
    )
    evaluated = laboratory_on("retrieval", images, captions, tmp_path / "dataset")
    for k in (1, 5, 10):
        for name, direction, told in (
            ("image_retrieval", ours.text_to_image, evaluated["t2i"]),
            ("text_retrieval", ours.image_to_text, evaluated["i2t"]),
        ):
            assert theirs[f"{name}_recall@{k}"] == pytest.approx(direction[f"r{k}"].value, abs=1e-6)
            assert theirs[f"{name}_recall@{k}"] == pytest.approx(told[f"r{k}"]["value"], abs=1e-6)


def test_clip_benchmark_zero_shot(model, clip_benchmark, tmp_path):
    """Its logits are our cosines, and its accuracies are those of `saccade-lab eval classification` on the same images."""
    import torch
    from clip_benchmark.metrics import zeroshot_classification

    clip, transform, tokenizer, images = clip_benchmark
    labels = torch.arange(12) % 4
    labels[5] = 3  # a wrong one, and classes of different sizes
    dataset = torch.utils.data.TensorDataset(torch.stack([transform(image) for image in images]), labels)
    dataset.classes = list(COLORS)
    classes = torch.utils.data.DataLoader(dataset, batch_size=5)
    asked = clip, tokenizer, list(COLORS), ["a {c} square"], "cpu"
    classifier = zeroshot_classification.zero_shot_classifier(*asked, amp=False)
    logits, target = zeroshot_classification.run_classification(clip, classifier, classes, "cpu", amp=False)
    cosines = model.encode_images(images) @ model.encode_texts(TEXTS).T
    np.testing.assert_allclose(logits / 100, cosines, atol=1e-5)
    assert target.tolist() == labels.tolist()
    # Its `accuracy` turns an array of one number into a float, which NumPy 2.4 refuses.
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        pytest.skip("NumPy before 2.4, which CLIP_benchmark's accuracy needs, is not installed")
    theirs = zeroshot_classification.evaluate(clip, classes, *asked[1:], amp=False)
    right = cosines.argmax(axis=1) == labels.numpy()
    assert theirs["acc1"] == pytest.approx(right.mean())
    by_class = [right[labels.numpy() == label].mean() for label in range(4)]
    assert theirs["mean_per_class_recall"] == pytest.approx(np.mean(by_class))
    (tmp_path / "templates.txt").write_text("a {} square\n")
    evaluated = laboratory_on(
        "classification",
        images,
        [[list(COLORS)[label]] for label in labels.tolist()],
        tmp_path / "dataset",
        "--templates",
        tmp_path / "templates.txt",
    )["figures"]
    assert theirs["acc1"] == pytest.approx(evaluated["top1"]["value"], abs=1e-6)
    assert theirs["mean_per_class_recall"] == pytest.approx(evaluated["mean_per_class"]["value"], abs=1e-6)


def test_sentence_transformers_style(model, starter, images):
    from saccade.compat.sentence_transformers import SentenceTransformer

    sentences = SentenceTransformer(str(starter))
    assert sentences.get_sentence_embedding_dimension() == model.dim
    rows = sentences.encode(["a bell", images[0]])
    np.testing.assert_allclose(rows, model.encode(["a bell", images[0]]), atol=1e-6)
    assert sentences.encode("a bell").shape == (model.dim,)
    np.testing.assert_allclose(sentences.similarity(rows, rows), rows @ rows.T, atol=1e-5)
    torch = pytest.importorskip("torch", reason="torch is not installed")
    assert isinstance(sentences.encode(["a"], convert_to_tensor=True), torch.Tensor)


def test_langchain(model, images):
    core = pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from langchain_core.vectorstores import InMemoryVectorStore
    from saccade.compat.langchain import SaccadeEmbeddings

    embeddings = SaccadeEmbeddings(model)
    assert isinstance(embeddings, core.embeddings.Embeddings)
    assert embeddings.embed_query("a bell") == pytest.approx(model.encode_texts("a bell").tolist())
    assert len(embeddings.embed_image(images)) == 4
    store = InMemoryVectorStore(embeddings)
    store.add_texts(TEXTS)
    assert store.similarity_search(TEXTS[2], k=1)[0].page_content == TEXTS[2]


def test_llama_index(model, images, tmp_path):
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    from saccade.compat.llama_index import SaccadeEmbedding

    embedding = SaccadeEmbedding(model)
    row = model.encode_texts("a bell").tolist()
    assert embedding.get_text_embedding("a bell") == pytest.approx(row)
    assert embedding.get_query_embedding("a bell") == pytest.approx(row)
    assert len(embedding.get_text_embedding_batch(TEXTS)) == 4
    images[0].save(tmp_path / "red.png")
    assert embedding.get_image_embedding(str(tmp_path / "red.png")) == pytest.approx(
        model.encode_images(tmp_path / "red.png").tolist()
    )
    assert asyncio.run(embedding.aget_query_embedding("a bell")) == pytest.approx(row)


def test_haystack(model, starter, images, tmp_path):
    haystack = pytest.importorskip("haystack", reason="haystack-ai is not installed")
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from saccade.compat.haystack import SaccadeDocumentEmbedder, SaccadeDocumentImageEmbedder, SaccadeTextEmbedder

    documents = []
    for color, image in zip(COLORS, images):
        image.save(tmp_path / f"{color}.png")
        documents.append(
            haystack.Document(content=f"a {color} square", meta={"file_path": str(tmp_path / f"{color}.png")})
        )
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(SaccadeDocumentEmbedder(str(starter)).run(documents)["documents"])
    pipeline = haystack.Pipeline()
    pipeline.add_component("embed", SaccadeTextEmbedder(str(starter)))
    pipeline.add_component("find", InMemoryEmbeddingRetriever(store, top_k=1))
    pipeline.connect("embed.embedding", "find.query_embedding")
    found = pipeline.run({"embed": {"text": "a blue square"}})["find"]["documents"]
    assert found[0].content == "a blue square"
    embedded = SaccadeDocumentImageEmbedder(str(starter)).run(documents)["documents"]
    np.testing.assert_allclose(
        [document.embedding for document in embedded],
        model.encode_images([tmp_path / f"{c}.png" for c in COLORS]),
        atol=1e-6,
    )
    again = SaccadeTextEmbedder.from_dict(SaccadeTextEmbedder(str(starter), precision="bf16").to_dict())
    assert (again.model, again.precision) == (str(starter), "bf16")


def test_mteb(model, starter, tmp_path):
    """Two image-text tasks on local data, evaluated by mteb: our figures, and those of `saccade-lab eval retrieval`."""
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")
    from datasets import Dataset
    from datasets import Image as ImageFeature
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata
    from saccade.compat.mteb import SaccadeModel

    noise = np.random.default_rng(5)
    pictures = [
        Image.fromarray(
            np.clip(picture(color).astype(int) + noise.integers(-60, 60, (40, 60, 3)), 0, 255).astype(np.uint8)
        )
        for color in list(COLORS) * 6
    ]
    captions = [f"a {color} square number {number}" for number, color in enumerate(list(COLORS) * 6)]
    image_ids, text_ids = ([f"{kind}{number:02}" for number in range(24)] for kind in ("image", "text"))

    def task(name, category):
        metadata = TaskMetadata(
            name=name,
            description="local",
            reference="https://example.org",
            dataset={"path": "local/none", "revision": "1"},
            type="Any2AnyRetrieval",
            category=category,
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
            date=("2024-01-01", "2024-12-31"),
            domains=["Web"],
            task_subtypes=["Image Text Retrieval"],
            license="cc0-1.0",
            annotations_creators="derived",
            dialect=[],
            modalities=["text", "image"],
            sample_creation="found",
            bibtex_citation="",
        )
        made = type(name, (AbsTaskRetrieval,), {"metadata": metadata})()
        images = Dataset.from_dict({"id": image_ids, "image": pictures}).cast_column("image", ImageFeature())
        images = images.add_column("modality", ["image"] * 24)
        texts = Dataset.from_dict({"id": text_ids, "text": captions, "modality": ["text"] * 24})
        queries, corpus = (texts, images) if category == "t2i" else (images, texts)
        relevant = {query: {answer: 1} for query, answer in zip(queries["id"], corpus["id"])}
        made.dataset = {
            "default": {"test": {"queries": queries, "corpus": corpus, "relevant_docs": relevant, "top_ranked": None}}
        }
        made.data_loaded = True
        return made

    wrapped = SaccadeModel(str(starter))
    tasks = [task("LocalT2IRetrieval", "t2i"), task("LocalI2TRetrieval", "i2t")]
    results = mteb.evaluate(wrapped, tasks, cache=None, overwrite_strategy="always", show_progress_bar=False)
    told = {result.task_name: result.scores["test"][0] for result in results.task_results}
    ours = saccade.metrics.retrieval(
        model.encode_images(pictures),
        model.encode_texts(captions),
        resamples=0,
        ties="trec",
        image_ids=image_ids,
        text_ids=text_ids,
    )
    evaluated = laboratory_on("retrieval", pictures, [[caption] for caption in captions], tmp_path / "dataset")
    for name, direction, lab in (
        ("LocalT2IRetrieval", ours.text_to_image, evaluated["t2i"]),
        ("LocalI2TRetrieval", ours.image_to_text, evaluated["i2t"]),
    ):
        # mteb rounds to five digits.
        for theirs, figure in (("ndcg_at_10", "ndcg10"), *((f"recall_at_{k}", f"recall{k}") for k in (1, 5, 10))):
            assert told[name][theirs] == pytest.approx(direction[figure].value, abs=1e-4)
            assert told[name][theirs] == pytest.approx(lab[figure]["value"], abs=1e-4)
