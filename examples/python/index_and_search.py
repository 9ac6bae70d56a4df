"""Indexes a folder and searches it: index_and_search.py COLLECTION FOLDER TEXT"""

import sys

import saccade

if len(sys.argv) != 4:
    sys.exit(__doc__)
address, folder, text = sys.argv[1:]
try:
    photos = saccade.open(address)
    report = photos.index(folder, progress=True)
    print(f"{report.added} images added, {len(report.failed)} files could not be read", file=sys.stderr)
    for hit in photos.search(text, k=5):
        sure = "" if hit.probability is None else f"{hit.probability:.0%}"
        print(f"{hit.score:.3f}  {sure:>4}  {hit.path}")
except saccade.Error as error:
    sys.exit(str(error))
