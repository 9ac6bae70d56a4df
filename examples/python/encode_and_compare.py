"""Scores images against texts: encode_and_compare.py MODEL IMAGE... -- TEXT..."""

import sys

import saccade

if sys.argv.count("--") != 1 or len(sys.argv) < 5:
    sys.exit(__doc__)
behind = sys.argv.index("--")
images, texts = sys.argv[2:behind], sys.argv[behind + 1 :]
try:
    model = saccade.load(sys.argv[1])
    cosines = model.encode_images(images) @ model.encode_texts(texts).T
except saccade.Error as error:
    sys.exit(str(error))
for image, row in zip(images, cosines):
    best = row.argmax()
    print(f"{image}: {texts[best]} ({row[best]:.3f})")
