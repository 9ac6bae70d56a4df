"""Text-image retrieval: encode images and texts, index folders, search them.

    import saccade

    model = saccade.load("starter")
    images = model.encode_images(["a.jpg", "b.png"])       # float32 [2, dim], rows of length 1
    texts = model.encode_texts(["two birds on a branch"])
    indices, scores = saccade.search(images, texts, k=2)

    photos = saccade.open("photos.saccade")
    photos.index(["~/Pictures"])
    for hit in photos.search("a red door", k=20):
        print(hit.path, hit.score, hit.probability)

Functions and classes raise the exceptions of this module (`saccade.Error` is the base of all).
"""

from . import _core, metrics
from ._calibration import CalibratedAnswer, CalibratedHit, Calibration
from ._encoder import EffectiveLength, Encoder, Skipped, TokenUse, load
from ._engine import (
    Answer,
    Engine,
    EngineInfo,
    Explanation,
    FailedFile,
    Hit,
    ImageMetadata,
    IndexedImage,
    IndexReport,
    NearDuplicate,
    open,
)
from ._errors import (
    BadData,
    Cancelled,
    Error,
    Internal,
    InvalidInput,
    LimitExceeded,
    Mismatch,
    NotFound,
    SystemFailure,
    Unsupported,
)
from ._multi import MultiEmbeddings, maxsim
from ._options import (
    Compose,
    IndexOptions,
    MapMethod,
    Match,
    Metric,
    Order,
    Precision,
    QueryKind,
    RerankMethod,
    SearchOptions,
)
from ._query import Query
from ._search import search

__version__: str = _core.version

__all__ = [
    "Answer",
    "BadData",
    "CalibratedAnswer",
    "CalibratedHit",
    "Calibration",
    "Cancelled",
    "Compose",
    "EffectiveLength",
    "Encoder",
    "Engine",
    "EngineInfo",
    "Error",
    "Explanation",
    "FailedFile",
    "Hit",
    "ImageMetadata",
    "IndexOptions",
    "IndexReport",
    "IndexedImage",
    "Internal",
    "InvalidInput",
    "LimitExceeded",
    "MapMethod",
    "Match",
    "Metric",
    "Mismatch",
    "MultiEmbeddings",
    "NearDuplicate",
    "NotFound",
    "Order",
    "Precision",
    "Query",
    "QueryKind",
    "RerankMethod",
    "SearchOptions",
    "Skipped",
    "SystemFailure",
    "TokenUse",
    "Unsupported",
    "load",
    "maxsim",
    "metrics",
    "open",
    "search",
]
