"""The same numbers as transformers on the same weights, in one process."""

import numpy as np
import pytest
from conftest import COLORS, picture
from PIL import Image

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture(scope="module")
def reference(starter):
    return transformers.CLIPModel.from_pretrained(starter).float().eval(), transformers.AutoTokenizer.from_pretrained(starter)


def unit(rows):
    rows = rows.numpy()
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def embeddings(output):
    return output if isinstance(output, torch.Tensor) else output.pooler_output


def test_texts(model, reference):
    clip, tokenizer = reference
    texts = ["a red square", "two birds on a branch", "Grüße – 3 Äpfel", "word " * 200, "!"]
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=model.context, return_tensors="pt")
    with torch.no_grad():
        expected = unit(embeddings(clip.get_text_features(**tokens)))
    assert np.abs(model.encode_texts(texts) - expected).max() <= 1e-4
    for text, ids in zip(texts, tokens["input_ids"]):
        own = model.tokenize(text)
        assert ids[: len(own)].tolist() == own.tolist()


def test_images(model, reference, starter):
    clip, _ = reference
    processor = transformers.CLIPImageProcessor.from_pretrained(starter)
    noise = np.random.default_rng(3).integers(0, 256, (333, 210, 3), np.uint8)
    images = [Image.fromarray(pixels) for pixels in [*map(picture, COLORS), noise]]
    images.append(images[-1].convert("L"))
    pixels = processor(images, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        expected = unit(embeddings(clip.get_image_features(pixel_values=pixels)))
    assert np.abs(model.preprocess(images) - pixels.numpy()).max() <= 0.01
    assert np.abs(model.encode_pixels(pixels) - expected).max() <= 1e-4
    assert np.abs(model.encode_images(images) - expected).max() <= 1e-3
