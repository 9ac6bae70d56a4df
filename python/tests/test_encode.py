"""Encoding: every kind of input, single and many, streams, errors, goldens."""

import io
import json
import pickle
import weakref

import numpy as np
import pytest
from conftest import COLORS, golden, picture, read_safetensors
from PIL import Image

import saccade


def test_facts(model, starter):
    assert model.dim == 192
    assert model.image_size == (64, 64)
    assert model.family == "clip"
    assert model.precision == "fp32"
    assert model.device == "cpu"
    assert len(model.fingerprint) == 64
    assert model.folder == str(starter)
    assert model.logit_scale > 1
    assert model.reads_texts and not model.has_late_interaction
    assert "64" in model.preprocessing
    assert saccade.__version__.count(".") == 2


def test_rows_have_length_one(model, pictures):
    rows = model.encode_images([pictures / "red.png", pictures / "blue.png"])
    assert rows.dtype == np.float32 and rows.shape == (2, model.dim)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    texts = model.encode_texts(["a red square", "a blue square", "ein Bär – 🐻"])
    assert texts.dtype == np.float32 and texts.shape == (3, model.dim)
    np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, atol=1e-5)


def test_one_in_one_out(model, pictures):
    path = pictures / "red.png"
    whole = model.encode_images([path])
    for single in (path, str(path), path.read_bytes(), Image.open(path), picture("red")):
        np.testing.assert_array_equal(model.encode_images(single), whole[0])
    np.testing.assert_array_equal(model.encode_texts("a bell"), model.encode_texts(["a bell"])[0])


def test_all_kinds_of_input_give_one_embedding(model, pictures):
    path = pictures / "green.png"
    pixels = picture("green")
    with open(path, "rb") as file:
        inputs = [
            str(path),
            path,
            path.read_bytes(),
            bytearray(path.read_bytes()),
            memoryview(path.read_bytes()),
            io.BytesIO(path.read_bytes()),
            file,
            Image.open(path),
            pixels,
            np.asfortranarray(pixels),
            pixels[::-1][::-1],
            np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)]),
        ]
        rows = model.encode_images(inputs, batch_size=5)
    assert len(rows) == len(inputs)
    for row in rows[1:-1]:
        np.testing.assert_array_equal(row, rows[0])
    np.testing.assert_allclose(rows[-1], rows[0], atol=1e-5)  # the opaque alpha channel goes another way


def test_pillow_modes(model):
    color = Image.fromarray(picture("yellow"))
    grey = color.convert("L")
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "F"):
        image = color.convert(mode)
        row = model.encode_images(image)
        near = model.encode_images(grey if mode in ("L", "LA", "I", "F") else color)
        assert row @ near > (0.5 if mode == "1" else 0.9), mode
    np.testing.assert_array_equal(model.encode_images(grey), model.encode_images(np.asarray(grey)))
    # A palette's file and its Pillow image are read alike.
    palette = color.quantize(8)
    file = io.BytesIO()
    palette.save(file, "PNG")
    np.testing.assert_array_equal(model.encode_images(palette), model.encode_images(file.getvalue()))


def test_an_array_of_images(model):
    several = np.stack([picture(color) for color in COLORS])
    rows = model.encode_images(several)
    np.testing.assert_array_equal(rows, model.encode_images(list(several)))
    assert model.encode_images([]).shape == (0, model.dim)
    assert model.encode_texts([]).shape == (0, model.dim)


def test_tensors_through_dlpack(model):
    class Tensor:  # what any framework has: no NumPy array
        def __init__(self, array):
            self.array, self.ndim = array, array.ndim

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    pixels = picture("blue")
    np.testing.assert_array_equal(model.encode_images(Tensor(pixels)), model.encode_images(pixels))
    rows = model.encode_images([pixels, picture("red")])
    np.testing.assert_array_equal(saccade.search(Tensor(rows), Tensor(rows[:1]), k=1)[0], [[0]])


def test_torch_tensors(model):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pixels = picture("blue")
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    expected = model.encode_images(pixels)
    np.testing.assert_array_equal(model.encode_images(tensor), expected)
    np.testing.assert_array_equal(model.encode_images(torch.stack([tensor, tensor])), np.stack([expected] * 2))
    with pytest.raises(saccade.InvalidInput, match="channels, height, width"):
        model.encode_images(torch.zeros(40, 60, 3, dtype=torch.uint8))
    rows = torch.from_numpy(np.stack([expected, expected]))
    indices, scores = saccade.search(rows.requires_grad_(), rows[0].detach(), k=2)
    assert indices.tolist() == [0, 1]
    np.testing.assert_allclose(scores, 1, atol=1e-5)


def test_streams_hold_one_batch(model):
    alive, most = weakref.WeakSet(), 0

    class Pixels(np.ndarray):
        __hash__ = object.__hash__

    def stream():
        nonlocal most
        for number in range(40):
            pixels = picture("red").view(Pixels)
            pixels[0, 0] = number
            alive.add(pixels)
            most = max(most, len(alive))
            yield pixels
            del pixels

    rows = model.encode_images(stream(), batch_size=4)
    assert rows.shape == (40, model.dim)
    assert most <= 3
    assert (rows[1:] != rows[:-1]).any(axis=1).all()


def test_an_iterators_exception_passes_through(model):
    def broken():
        yield picture("red")
        raise RuntimeError("the tape tore")

    with pytest.raises(RuntimeError, match="the tape tore"):
        model.encode_images(broken(), batch_size=1)
    assert model.encode_images([picture("red")]).shape == (1, model.dim)


def test_batches_change_nothing_that_matters(model):
    images = [picture(color) for color in COLORS] * 5
    expected = model.encode_images(images, batch_size=20)
    for batch_size in (1, 3, 64):
        np.testing.assert_allclose(model.encode_images(images, batch_size=batch_size), expected, atol=1e-5)


def test_one_bad_image_is_named(model, pictures):
    (pictures / "broken.png").write_bytes(b"no image")
    inputs = [pictures / "red.png", pictures / "broken.png", pictures / "gone.png", pictures / "blue.png"]
    with pytest.raises(saccade.Error, match=r"image 1 \(.*broken.png") as raised:
        model.encode_images(inputs)
    assert raised.value.index == 1
    with pytest.raises(saccade.NotFound, match="gone.png") as raised:
        model.encode_images(inputs[2:])
    assert raised.value.index == 0
    with pytest.raises(saccade.InvalidInput, match="image 2: an array of float32") as raised:
        model.encode_images([inputs[0], inputs[3], picture("red").astype(np.float32)])
    assert raised.value.index == 2


def test_bad_images_are_skipped_and_listed(model, pictures):
    (pictures / "broken.png").write_bytes(b"no image")
    inputs = [
        picture("red").astype(float),
        pictures / "red.png",
        pictures / "broken.png",
        object(),
        pictures / "blue.png",
        pictures / "gone.png",
    ]
    expected = model.encode_images([inputs[1], inputs[4]])
    for batch_size in (1, 2, 6):
        rows, skipped = model.encode_images(iter(inputs), errors="skip", batch_size=batch_size)
        np.testing.assert_allclose(rows, expected, atol=1e-5)
        assert [one.index for one in skipped] == [0, 2, 3, 5]
        assert [type(one.error) for one in skipped][0::2] == [saccade.InvalidInput, saccade.InvalidInput]
        assert isinstance(skipped[3].error, saccade.NotFound)
        assert all(one.error.index == one.index for one in skipped)
    rows, skipped = model.encode_images(picture("red"), errors="skip")
    assert rows.shape == (1, model.dim) and skipped == []
    with pytest.raises(saccade.InvalidInput, match="errors is 'ignore'"):
        model.encode_images(inputs, errors="ignore")
    with pytest.raises(TypeError, match="batch"):
        model.encode_images(inputs, batch=2)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((4, 4, 5), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros((4, 4, 3), np.int64),
        np.zeros(4, np.uint8),
        io.StringIO("text"),
        7,
        None,
    ],
    ids=repr,
)
def test_what_is_no_image_is_said(model, wrong):
    with pytest.raises(saccade.InvalidInput):
        model.encode_images([wrong])


def test_wrong_options(model):
    with pytest.raises(saccade.InvalidInput, match="batch size of 0"):
        model.encode_images([picture("red")], batch_size=0)
    with pytest.raises(saccade.InvalidInput, match="text 1 is a int"):
        model.encode_texts(["a", 5])
    with pytest.raises(saccade.InvalidInput, match='precision is "fp8"'):
        saccade.load(precision="fp8")
    with pytest.raises(saccade.InvalidInput, match='device "gpu", expected cpu, cuda'):
        saccade.load(device="gpu")
    with pytest.raises(saccade.InvalidInput, match='device "gpu", expected cpu, cuda'):
        saccade.open("nowhere", device="gpu")
    with pytest.raises(saccade.Unsupported, match="family siglip is encoded on the processor alone"):
        saccade.load(golden("siglip"), device="cuda")
    with pytest.raises(saccade.InvalidInput, match="-1 threads"):
        saccade.load(threads=-1)
    with pytest.raises(saccade.NotFound, match="no such folder"):
        saccade.load("nobody/has-this")
    with pytest.raises(TypeError, match=r"saccade\.load"):
        saccade.Encoder()


def test_texts_of_any_content(model):
    lone = model.encode_texts("a \udc80 bell")
    np.testing.assert_array_equal(lone, model.encode_texts("a \ufffd bell"))
    assert model.encode_texts(["", "\0", "x" * 100_000]).shape == (3, model.dim)


def test_tokens(model):
    use = model.tokens(["a bell", "word " * 500])
    assert use.used.tolist()[1] == model.context - 2
    assert use.dropped[0] == 0 and use.dropped[1] > 400
    assert model.tokens("a bell") == (use.used[0], 0)
    ids = model.tokenize("a bell")
    assert ids.dtype == np.int32 and len(ids) == use.used[0] + 2
    assert [len(one) for one in model.tokenize(["a bell", "word " * 500])] == [len(ids), model.context]
    assert len(model.tokenize("word " * 500, max_tokens=1000)) > 400
    with pytest.raises(saccade.InvalidInput):
        model.tokenize("a", max_tokens=1)


def test_effective_lengths(model, starter):
    kept = json.loads((starter / "saccade.json").read_text())["effective_length"]
    assert [(one.dataset, one.tokens) for one in model.effective_lengths] == [
        (one["dataset"], one["tokens"]) for one in kept if one["fingerprint"] == model.fingerprint
    ]
    assert model.effective_lengths


def test_own_tokens(model):
    texts = ["a bell", "two birds on a branch"]
    ids = model.tokenize(texts)
    np.testing.assert_array_equal(model.encode_tokens(ids), model.encode_texts(texts))
    assert ids[0][0] == model.special_tokens["start"] and ids[0][-1] == model.special_tokens["end"]
    with pytest.raises(saccade.InvalidInput):
        model.encode_tokens([[]])
    with pytest.raises(saccade.InvalidInput):
        model.encode_tokens([[1] * (model.context + 1)])
    with pytest.raises(saccade.Mismatch):
        model.encode_tokens([[1, 10**6, 2]])


def test_mixed_lists(model, pictures):
    mixed = ["a bell", pictures / "red.png", picture("blue"), "two birds"]
    rows = model.encode(mixed)
    np.testing.assert_allclose(rows[[0, 3]], model.encode_texts(["a bell", "two birds"]), atol=1e-6)
    np.testing.assert_allclose(rows[1:3], model.encode_images(mixed[1:3]), atol=1e-6)
    assert model.encode("a bell").shape == model.encode(picture("red")).shape == (model.dim,)


def test_own_preprocessing(model, pictures):
    image = Image.open(pictures / "red.png")
    pixels = model.preprocess(image)
    assert pixels.dtype == np.float32 and pixels.shape == (3, *model.image_size)
    np.testing.assert_allclose(model.encode_pixels(pixels), model.encode_images(image), atol=1e-5)
    assert model.preprocess([image, picture("blue")]).shape == (2, 3, *model.image_size)
    with pytest.raises(saccade.InvalidInput, match="the model reads"):
        model.encode_pixels(np.zeros((1, 3, 8, 8), np.float32))
    with pytest.raises(saccade.InvalidInput, match="float64"):
        model.encode_pixels(np.zeros((1, 3, 64, 64)))


def test_relevance_maps(model, pictures):
    values = model.relevance_map(pictures / "red.png", "a red square")
    assert values.dtype == np.float32 and values.shape == (4, 4)
    assert (values >= 0).all() and values.max() > 0
    assert (values != model.relevance_map(picture("red"), "a blue bird")).any()


def test_visualness():
    trained = saccade.load(golden("visualness"))
    assert trained.has_visualness
    texts = ["a red card", "a white card here", "no use red", "no way blue"]
    scores = trained.visualness(texts)
    kept = json.loads((golden("visualness") / "saccade.json").read_text())["visualness"]
    assert scores.dtype == np.float64 and scores.shape == (4,)
    # One minus the cosine with the embedding of the NULL image.
    np.testing.assert_allclose(scores, 1 - trained.encode_texts(texts) @ np.array(kept["null_row"]), atol=1e-6)
    assert (scores > kept["threshold"]).tolist() == [True, True, False, False]
    one = trained.visualness("a red card")
    assert isinstance(one, float) and one == pytest.approx(scores[0], abs=1e-6)
    assert trained.visualness(iter(texts)).tolist() == scores.tolist()


def test_abilities_that_a_model_lacks(model):
    assert not model.has_visualness
    with pytest.raises(saccade.Unsupported, match="visual"):
        model.visualness("a bell")
    with pytest.raises(saccade.Unsupported, match="late interaction"):
        model.encode_texts_multi(["a bell"])
    with pytest.raises(saccade.Unsupported, match="late interaction"):
        model.encode_images_multi([picture("red")])


def test_pickle_loads_the_same_model(model):
    again = pickle.loads(pickle.dumps(model))
    assert again.fingerprint == model.fingerprint
    np.testing.assert_array_equal(again.encode_texts(["a bell"]), model.encode_texts(["a bell"]))


@pytest.mark.parametrize(
    "name",
    [
        "clip-quickgelu",
        "clip-gelu",
        "long-clip",
        "siglip",
        "open_clip-gelu",
        "open_clip-quickgelu",
        "jina-clip",
    ],
)
def test_same_numbers_as_the_reference(name):
    """The outputs of transformers and OpenCLIP on the same weights, kept as goldens."""
    expected = read_safetensors(golden(name) / "io.safetensors")
    encoder = saccade.load(golden(name), threads=2)
    rows = encoder.encode_pixels(expected["pixel_values"])
    assert np.abs(rows - expected["image_embeds"]).max() <= 1e-4


def test_same_numbers_as_the_reference_of_the_starter(model, starter):
    expected = read_safetensors(starter / "io.safetensors")
    rows = model.encode_pixels(expected["pixel_values"])
    assert np.abs(rows - expected["image_embeds"]).max() <= 1e-4


def test_preprocessing_agrees_with_pillow(model):
    """The tensors that Pillow and NumPy made of the same files, the starter's way: squashed, mean and std 0.5."""
    names = [entry["file"] for entry in json.loads((golden("preprocess") / "index.json").read_text())["images"]]
    assert len(names) == 14
    for name in names:
        path = golden("preprocess") / name
        expected = read_safetensors(path.with_suffix(".safetensors"))["squash_bicubic"]
        pixels = model.preprocess(Image.open(path))
        assert np.abs(pixels - expected).max() <= 1e-6, name


def test_lists_of_numpy_and_odd_inputs(model, pictures):
    paths = [str(pictures / f"{color}.png") for color in ("red", "blue")]
    expected = model.encode_images(paths)
    for given in (np.array(paths), np.array(paths, object), tuple(paths), dict.fromkeys(paths)):
        np.testing.assert_array_equal(model.encode_images(given), expected)
    np.testing.assert_array_equal(model.encode(np.array(["a", "b"])), model.encode_texts(["a", "b"]))
    images = np.stack([picture("red"), picture("blue")])
    np.testing.assert_array_equal(model.encode(images), model.encode_images(images))
    assert model.encode_pixels(np.empty((0, 3, *model.image_size), np.float32)).shape == (0, model.dim)
    assert model.encode([]).shape == model.encode_texts([]).shape == model.encode_images([]).shape == (0, model.dim)


def test_wrong_inputs_are_named(model, pictures):
    red = pictures / "red.png"
    with open(red, "rb") as closed:
        pass
    with open(red) as text_file:
        wrong = {
            "binary mode": lambda: model.encode_images([red, text_file]),
            "closed file": lambda: model.encode_images([red, closed]),
            "no path": lambda: model.encode_images([red, "\ud800.png"]),
            "batch_size is '8'": lambda: model.encode_images(red, batch_size="8"),
            "batch_size is 2.5": lambda: model.encode_texts(["a"], batch_size=2.5),
            "batch_size is 1000000000000": lambda: model.encode_texts(["a"], batch_size=10**12),
            "texts is a NoneType": lambda: model.encode_texts(None),
            "texts is a bytes": lambda: model.encode_texts(b"abc"),
            "texts is a ndarray of 0 axes": lambda: model.tokens(np.array("abc")),
            "inputs is a NoneType": lambda: model.encode(None),
            "max_tokens is 2.5": lambda: model.tokenize("a", max_tokens=2.5),
            "ids: text 0": lambda: model.encode_tokens(model.tokenize("a")),
            "ids: text 1": lambda: model.encode_tokens([[1, 2], ["a"]]),
            "text is a list": lambda: model.relevance_map(red, ["a"]),
            "device is a int": lambda: saccade.load(device=5),
            "precision is a NoneType": lambda: saccade.load(precision=None),
            "checkpoint is a int": lambda: saccade.load(5),
        }
        for message, call in wrong.items():
            with pytest.raises(saccade.InvalidInput, match=message):
                call()
    rows, skipped = model.encode_images([red, closed, "\ud800.png", red], errors="skip")
    assert len(rows) == 2 and [one.index for one in skipped] == [1, 2]
