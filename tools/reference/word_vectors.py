"""Word vectors as gensim writes them, for tests: tests/golden/word_vectors.

Made with gensim 4.4: python tools/reference/word_vectors.py tests/golden/word_vectors
"""
import pathlib
import sys

import numpy
from gensim.models import KeyedVectors

VECTORS = {
    "dog": (1, 0, 0),
    "idea": (0, 2, 0),
    "puppy": (3, 0, 4),
    "thought": (1, 5, 0),
    "opposite": (-1, -1, 0),
    "rest": (0, 0, 1),
}

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
vectors = KeyedVectors(vector_size=3)
vectors.add_vectors(list(VECTORS), numpy.array(list(VECTORS.values()), dtype=numpy.float32))
vectors.save_word2vec_format(str(folder / "word2vec.txt"), binary=False)
vectors.save_word2vec_format(str(folder / "word2vec.bin"), binary=True)
vectors.save_word2vec_format(str(folder / "glove.txt"), binary=False, write_header=False)  # GloVe's own format
