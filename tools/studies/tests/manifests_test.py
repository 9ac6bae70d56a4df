"""Tests of the data that tools/studies/manifests.py makes."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import manifests  # noqa: E402


class Manifests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "images").mkdir()

    def made(self, *words):
        self.assertEqual(manifests.main([*words, "--out", str(self.root / "out/made")]), 0)
        return (self.root / "out/made").read_text().splitlines()

    def test_ucms_classes_are_hundreds(self):
        images = [{"filename": f"{n}.jpg", "split": split, "sentences": [{"raw": "a field ."}, {"raw": "a farm ."}]}
                  for n, split in ((1, "train"), (100, "val"), (101, "test"), (2100, "train"))]
        (self.root / "dataset.json").write_text(json.dumps({"images": images}))
        records = [json.loads(line) for line in self.made("ucm-classes", "--ucm", str(self.root))]
        self.assertEqual([record["group"] for record in records], ["class 1", "class 1", "class 2", "class 21"])
        self.assertEqual(records[1], {"id": "100.jpg", "image": str((self.root / "images/100.jpg").resolve()),
                                      "captions": ["a field .", "a farm ."], "group": "class 1", "split": "val"})

    def test_photographs_that_are_not_there_are_left_out(self):
        (self.root / "captions.csv").write_text('image_id,caption_num,caption\na.jpg,0,"A dog, running ."\na.jpg,1,A dog .\n'
                                                "b.jpg,0,A cat .\n")
        (self.root / "images/a.jpg").write_bytes(b"\xff")
        records = [json.loads(line) for line in self.made("flickr8k", "--flickr8k", str(self.root))]
        self.assertEqual([(record["id"], record["captions"]) for record in records],
                         [("a.jpg", ["A dog, running .", "A dog ."])])

    def test_objects_are_words_rated_high(self):
        ratings = self.root / "ratings.txt"
        ratings.write_text('Word\tBigram\tConc.M\tConc.SD\nsled\t0\t4.85\t0.4\n"quoted\t0\t4.5\t0.4\nidea\t0\t1.6\t0.4\n')
        self.assertEqual(self.made("objects", "--ratings", str(ratings)), ["sled", '"quoted'])
        self.assertEqual(self.made("objects", "--ratings", str(ratings), "--least", "4.6"), ["sled"])
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(manifests.main(["objects", "--ratings", str(ratings), "--least", "6", "--out",
                                             str(self.root / "none")]), 1)
        self.assertIn("nothing was found", said.getvalue())
        self.assertFalse((self.root / "none").exists())


if __name__ == "__main__":
    unittest.main()
