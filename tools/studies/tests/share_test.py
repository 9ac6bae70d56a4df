"""Tests of the share of edit queries that tools/studies/share.py draws."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import share  # noqa: E402


def query(number, group, split="train"):
    return {"id": f"{split}/{group}{number}", "reference": f"{group}/a", "targets": [f"{group}/{number}"], "group": group, "split": split}


LINES = [*({"picture": f"{group}-{name}.svg", "id": f"{group}/{name}"} for group in "pqr" for name in ("a", 1, 2, 3)),
         *(query(number, group) for group in "pqr" for number in (1, 2)), query(3, "p", "val")]


class Share(unittest.TestCase):
    def test_groups_are_whole_and_have_their_images(self):
        lines = share.drawn(LINES, "train", 3, 1)
        queries = [line for line in lines if "reference" in line]
        self.assertEqual(len(queries), 4)
        groups = {line["group"] for line in queries}
        self.assertEqual(len(groups), 2)
        self.assertEqual({line["id"] for line in lines if "picture" in line}, {f"{group}/{name}" for group in groups for name in ("a", 1, 2)})

    def test_the_seed_alone_decides(self):
        self.assertEqual(share.drawn(LINES, "train", 2, 1), share.drawn(list(LINES), "train", 2, 1))
        self.assertGreater(len({str(share.drawn(LINES, "train", 2, seed)) for seed in range(10)}), 1)

    def test_other_splits_are_left_out(self):
        self.assertEqual([line["id"] for line in share.drawn(LINES, "val", 9, 1)], ["p/a", "p/3", "val/p3"])


if __name__ == "__main__":
    unittest.main()
