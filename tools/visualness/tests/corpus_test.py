"""Tests of tools/visualness/corpus.py: a manual page's .so lines name pages of the unpacked packages alone."""
import gzip
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import corpus  # noqa: E402


class PageSource(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.packages = self.root / "packages"
        self.page("shell", "man1/shell.1.gz", ".SH NAME\nshell of the package\n")

    def page(self, package, name, text):
        path = self.packages / package / "usr/share/man" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return path

    def source(self, package, name, text):
        return corpus.page_source(self.page(package, name, text), self.packages).decode()

    def test_a_named_page_stands_in_place_of_the_line(self):
        self.assertEqual(self.source("shell", "man1/rshell.1.gz", ".so man1/shell.1\n"), ".SH NAME\nshell of the package\n\n")
        self.assertEqual(self.source("shell", "man7/builtins.7.gz", "before\n'so man1/rshell.1.gz\nafter\n"),
                         "before\n.SH NAME\nshell of the package\n\n\nafter\n")

    def test_the_own_package_comes_before_others(self):
        self.page("another", "man1/shell.1", "another package's\n")
        self.assertIn("shell of the package", self.source("shell", "man1/alias.1.gz", ".so man1/shell.1"))
        self.assertIn("another package's", self.source("without", "man1/alias.1.gz", ".so man1/shell.1"))

    def test_pages_outside_the_packages_are_left_out(self):
        outside = self.root / "shell.1"
        outside.write_text("installed\n")
        (self.packages / "shell/usr/share/man/man1/link.1").symlink_to(outside)
        for name in ("man1/nothing.1", "man1/link.1", "../../../../../shell.1", str(outside)):
            self.assertEqual(self.source("shell", "man1/alias.1.gz", f"before\n.so {name}\nafter\n"), "before\n\nafter\n", name)

    def test_a_page_that_names_itself_ends(self):
        self.page("shell", "man1/one.1.gz", "one\n.so man1/two.1\n")
        self.assertEqual(self.source("shell", "man1/two.1.gz", "two\n.so man1/one.1\n"), "two\none\n\n\n")


if __name__ == "__main__":
    unittest.main()
