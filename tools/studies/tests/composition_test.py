"""Tests of the pairs of captions that tools/studies/composition.py makes."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import composition  # noqa: E402


class Composition(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def code(self, captions, split="test"):
        images = [{"filename": f"{n}.jpg", "split": split, "sentences": [{"raw": raw} for raw in each]}
                  for n, each in enumerate(captions)]
        (self.root / "dataset.json").write_text(json.dumps({"images": images}))
        return composition.main(["--ucm", str(self.root), "--out", str(self.root / "out/replaced.json")])

    def made(self, *captions):
        self.assertEqual(self.code(captions), 0)
        return (self.root / "out/replaced.json").read_text()

    def negatives(self, *captions):
        return [pair["negative_caption"] for pair in json.loads(self.made(*captions)).values()]

    def test_a_word_is_replaced_by_one_that_no_caption_of_the_image_has(self):
        captions = ["A red roof .", "White, grey, blue, black and orange roofs .", "Purple and beige ones .", "A red roof ."]
        self.assertEqual(json.loads(self.made(captions)), {
            "0": {"filename": "0.jpg", "caption": "A red roof .", "negative_caption": "A green roof ."},
            "1": {"filename": "0.jpg", "caption": captions[1], "negative_caption": "Brown, grey, blue, black and orange roofs ."},
            "2": {"filename": "0.jpg", "caption": captions[2], "negative_caption": "Green and beige ones ."}})

    def test_names_of_classes_are_whole_and_fit_their_article(self):
        self.assertEqual(self.negatives(["Two cars in a dense residential area ."], ["An overpass ."]),
                         ["Three cars in a dense residential area .", "Two cars in an airplane .", "A baseball diamond ."])

    def test_a_plural_keeps_the_singular_out(self):
        plurals = " and ".join(f"{name}s" for name in composition.LISTS[2] if name not in ("farmland", "river"))
        self.assertEqual(self.negatives([plurals, "Some farmland ."])[-1], "Some river .")

    def test_a_word_without_another_is_left(self):
        numbers = " ".join(composition.LISTS[1])
        self.assertEqual(self.negatives([f"{numbers} red cars ."]), [f"{numbers} white cars ."])

    def test_the_same_captions_give_the_same_bytes(self):
        captions = [["Two red storage tanks ."]] * 7
        made = self.made(*captions)
        self.assertEqual(len(json.loads(made)), 21)
        self.assertEqual(self.made(*captions), made)

    def test_only_the_test_split_is_read(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(self.code([["Two red storage tanks ."]], "train"), 1)
        self.assertIn("nothing was found", said.getvalue())
        self.assertFalse((self.root / "out").exists())


if __name__ == "__main__":
    unittest.main()
