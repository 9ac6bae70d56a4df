"""Collections of images: index folders, search them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._calibration import Calibration
from ._checks import flag, path_of, several, string, whole
from ._encoder import Encoder, TokenUse
from ._errors import Cancelled, Error, InvalidInput, error_of
from ._images import ImageLike
from ._options import (
    Compose,
    IndexOptions,
    MapMethod,
    Match,
    Order,
    Precision,
    QueryKind,
    RerankMethod,
    SearchOptions,
    checked,
)
from ._progress import Progress, ProgressFunction
from ._query import Query, id_of


@dataclass(frozen=True)
class NearDuplicate:
    """An image that was grouped with a better hit that looks the same."""

    id: int
    path: str
    score: float
    same_bytes: bool
    """The very same file content."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Explanation of a hit by one model."""

    model: str
    """Name of the model."""
    score: float | None
    """Cosine or MaxSim of the whole query by that model; None if the second model could not read the image."""
    words: list[tuple[str, float]]
    """Each word of the text, at most 100, with the decrease of the score without it (below 0 if it rises); empty without a
    text."""
    method: str
    """Method of the map: "legrad", "chefer", or "similarity" (late interaction)."""
    map: NDArray[np.float32] | None
    """Where in the image the score comes from: [rows, columns] of patches, of sum 1, or 0 throughout."""
    box: tuple[float, float, float, float] | None
    """Area of the map, (x, y, width, height) in fractions of the image; beyond 0 and 1 if the image was padded."""
    no_map: str
    """Why there is no map; empty if there is one."""


@dataclass(frozen=True)
class Hit:
    """An image that was found."""

    rank: int
    """From 1, by score."""
    id: int
    """Of the image; never given to another."""
    path: str
    score: float
    """The cosine in [-1, 1]; with late interaction the MaxSim score; if `reranked`, the second model's score, which is not
    comparable with those of hits that were not."""
    reranked: bool
    """Scored by the model of `rerank`."""
    probability: float | None
    """Calibrated probability of being right, 0 to 1; None without calibration data."""
    match: Match
    """"strong match", "likely", "possible", "weak match" or "unknown", by the probability."""
    by_keywords: bool
    """A caption, file or folder name matches too."""
    caption: str
    width: int
    """Pixels, after orientation."""
    height: int
    format: str
    """"jpeg", "png", ..."""
    modified: int
    """Of the file, nanoseconds since 1970 UTC."""
    near_duplicates: list[NearDuplicate] = field(hash=False)
    """Grouped under this hit, best first."""
    explanations: list[Explanation] = field(default_factory=list, hash=False)
    """With `explain`: by the collection's model, then by that of `rerank`."""


class Answer(Sequence):
    """What a search found: a sequence of hits, best first."""

    hits: list[Hit]
    searched: int
    """Images that passed the filter; each of them was scored."""
    tokens: TokenUse | None
    """Of the query's text."""
    notes: list[str]
    """What people should know, a sentence each."""

    def __init__(self, hits: list[Hit], searched: int, tokens: TokenUse | None, notes: list[str]) -> None:
        self.hits, self.searched, self.tokens, self.notes = hits, searched, tokens, notes

    @classmethod
    def _of(cls, found: Any) -> Answer:
        hits, searched, tokens, notes = found
        for hit in hits:
            hit["near_duplicates"] = [NearDuplicate(*copy) for copy in hit["near_duplicates"]]
            hit["explanations"] = [Explanation(**explanation) for explanation in hit["explanations"]]
        return cls([Hit(**hit) for hit in hits], searched, tokens and TokenUse(*tokens), notes)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, item: Any) -> Any:
        return self.hits[item]

    def __repr__(self) -> str:
        return f"Answer({len(self.hits)} hits of {self.searched} images)"


@dataclass(frozen=True)
class FailedFile:
    """A file that could not be indexed."""

    path: str
    error: Error


@dataclass(frozen=True)
class IndexReport:
    """What an index run did, in numbers of files."""

    seen: int
    added: int
    updated: int
    """Images whose file had changed."""
    moved: int
    """Images whose file was found under another path."""
    unchanged: int
    removed: int
    """With `prune`."""
    missing: int
    """Images whose files are gone, kept without `prune`."""
    seconds: float
    failed: list[FailedFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def _of(cls, report: dict[str, Any]) -> IndexReport:
        failed = [FailedFile(path, error_of(error)) for path, error in report.pop("failed")]
        return cls(failed=failed, **report)


@dataclass(frozen=True)
class IndexedImage:
    """One image of a collection."""

    id: int
    """From 1, never given to another image."""
    row: int
    """Of `Engine.embeddings`; -1 in a Weaviate cluster."""
    path: str
    """Of its file; frames of a video end in "#t=SECONDS"."""
    hash: str
    """SHA-256 of the file, 64 hexadecimal digits; empty if not known."""
    size: int
    """Bytes; -1 if not known, as of an image imported without its file."""
    modified: int
    """Nanoseconds since 1970 UTC; -1 if not known."""
    width: int
    """Pixels, after orientation; 0 if not known."""
    height: int
    format: str
    """"jpeg", "png", ...; empty if not known."""
    caption: str


@dataclass(frozen=True)
class ImageMetadata:
    """Embedded metadata of an image file (EXIF, XMP and IPTC). It is untrusted: cameras lack clocks, and editors guess."""

    taken: int | None
    """Local time at which the image was taken, in seconds since 1970 as if it were UTC."""
    zone_minutes: int | None
    """Time zone of `taken`, minutes east of UTC."""
    camera: str
    lens: str
    latitude: float | None
    """Degrees north, WGS 84."""
    longitude: float | None
    place: str
    """Town nearest to that position; only the command line finds it."""
    rating: int | None
    """1 to 5 stars; -1: rejected."""
    title: str
    description: str
    keywords: list[str]


@dataclass(frozen=True)
class EngineInfo:
    """Facts about a collection."""

    address: str
    """Folder of the collection, or address in a cluster."""
    encoder: str
    """Name of its model."""
    encoder_folder: str
    """Folder of the model when the collection was created."""
    fingerprint: str
    """SHA-256 of the model."""
    precision: Precision
    """Number format of the model when images were indexed."""
    images: int
    dim: int
    late_interaction: bool
    """Several vectors for each image."""
    created: str
    """UTC, "2026-01-31T12:00:00.123456Z", or in whole seconds in collections of earlier versions."""


def open(
    address: str | os.PathLike[str],
    *,
    encoder: Encoder | str | os.PathLike[str] | None = None,
    create: bool = True,
    precision: Precision | None = None,
    threads: int = 0,
    exact_decode: bool = False,
    device: str | None = None,
) -> Engine:
    """Open a collection: a folder that holds the embeddings and the catalog of indexed images.

    Args:
        address: the folder; "~" is the home folder. Also an address like "weaviate://HOST:PORT/Name". A new collection is
            made by the first `index`, nothing before.
        encoder: model of a new collection, as `load` takes it, or a loaded one; None is the starter. With an existing
            collection, the new location of its model if that was moved; another model is refused.
        create: False raises NotFound if there is no collection yet.
        precision: None is the collection's own, for a new one that of the loaded encoder, or "fp32".
        threads: 0 uses all processors of the process; at most 1,024.
        exact_decode: True decodes all JPEGs of a new collection at their full size. By default those of at least five times
            the model's input are decoded at a reduced size, which is faster and changes their embeddings slightly. The
            collection remembers it for its queries.
        device: as `load` takes it; None is that of the loaded encoder, or "cpu". The collection does not remember it.

    Raises:
        NotFound: no collection there and `create` is False, or its model is gone.
        Mismatch: another model than the collection's.
        InvalidInput: `exact_decode` with a collection that was created without it.
        BadData: broken files.
    """
    if isinstance(encoder, Encoder):
        precision = precision or encoder.precision
        device = device or encoder.device
        encoder = encoder.folder
    named = path_of(address, "address")
    model = b"" if encoder is None else path_of(encoder, "encoder")
    if os.path.isdir(model):
        model = os.path.abspath(model)  # a child process may have another working directory
    options = (
        flag(create, "create"),
        None if precision is None else string(precision, "precision"),
        whole(threads, "threads", bits=32),
        flag(exact_decode, "exact_decode"),
        string("cpu" if device is None else device, "device"),
    )
    opened = _core.open(named, model, *options)
    place = named if b"://" in named else os.path.abspath(named)
    return Engine._of(opened, (os.fsdecode(place), os.fsdecode(model), *options))


class _OneWriter:
    """Lock of one thread, which a progress function or `on_change` of that thread cannot wait for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._process = os.getpid()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]  # the child of a fork has no thread that would release it
        if self._thread == threading.get_ident():
            raise Cancelled(
                "this thread is writing to the collection: index, watch, remove and refresh wait for its end"
            )
        self._lock.acquire()
        self._thread = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._thread = None
        self._lock.release()


class Engine:
    """An open collection with its model. Made by `saccade.open`.

    `search`, `like` and everything else that only reads may be used from several threads at once, also while `index` runs.
    A collection has one writer at a time, in all processes: another one raises Cancelled, with the process id of the first.
    So does a progress function or `on_change` that writes; it may search.
    A search sees the collection as it was when the last `index`, `remove` or `refresh` of this object ended. Ctrl-C ends a
    call within a second. In a child process made by fork, and where a pickled one is unpickled, the collection is opened again.
    """

    _core: _core.Engine
    _opened_with: tuple[Any, ...]
    _writing: _OneWriter

    def __init__(self) -> None:
        raise TypeError("saccade.open() makes engines")

    @classmethod
    def _of(cls, core: _core.Engine, opened_with: tuple[Any, ...]) -> Engine:
        engine = object.__new__(cls)
        engine._core = core
        engine._opened_with = opened_with
        engine._writing = _OneWriter()
        return engine

    def __reduce__(self) -> Any:
        return (_open_again, self._opened_with)

    def __repr__(self) -> str:
        return f"Engine({os.fspath(self._opened_with[0])!r}, {len(self)} images)"

    def __len__(self) -> int:
        return self.info.images

    def index(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        prune: bool = False,
        retry_failed: bool = False,
        follow_links: bool = False,
        hidden: bool = False,
        exclude: str | Iterable[str] = (),
        captions: Mapping[str | os.PathLike[str], str] | None = None,
        ignore_files: bool = True,
        sidecars: bool = True,
        metadata: bool = True,
        video_seconds: float = 10.0,
        video_frames: int = 100,
        batch_size: int = 32,
        max_pixels: int = 200_000_000,
        progress: bool | ProgressFunction = False,
    ) -> IndexReport:
        """Add new and changed images and videos below the paths.

        Goes on where an earlier call was stopped; unchanged files are not read. Files that cannot be read are in the
        report. Ctrl-C raises KeyboardInterrupt, and what is done is kept.

        Args:
            paths: a file or folder, or several; "~" is the home folder.
            prune: remove images whose files are gone; otherwise they are only counted.
            retry_failed: try files again that were found to be broken and have not changed.
            follow_links: follow links to folders; links to files always are.
            hidden: include files and folders whose names begin with a dot.
            exclude: patterns of what to leave out, as lines of a .gitignore file.
            captions: captions by image path. They win over caption files beside the images.
            ignore_files: obey files named .saccadeignore.
            sidecars: read captions from .txt files beside images.
            metadata: store embedded metadata (EXIF, XMP, IPTC).
            video_seconds: largest time between two indexed frames of a video, 0 or more. The first frame of each scene always
                is one. Videos are read if ffmpeg and ffprobe are installed.
            video_frames: most frames of a video, up to 1,000; 0 skips videos.
            batch_size: images in a pass of the model.
            max_pixels: largest number of an image's pixels (width x height), at least 1; a larger image is a failed file.
            progress: see `Encoder.encode_images`.

        Raises:
            InvalidInput: an option out of range.
            NotFound: none of the paths exists.
            SystemFailure: the disk is full.
            Cancelled: another process is writing to the collection.
        """
        options: IndexOptions = {
            "prune": prune, "retry_failed": retry_failed, "follow_links": follow_links, "hidden": hidden,
            "exclude": exclude, "captions": captions, "ignore_files": ignore_files, "sidecars": sidecars,
            "metadata": metadata, "video_seconds": video_seconds, "video_frames": video_frames, "batch_size": batch_size,
            "max_pixels": max_pixels,
        }  # fmt: skip
        given = checked("index", options, IndexOptions)
        with Progress(progress) as function, self._writing:
            return IndexReport._of(self._core.index(_paths(paths), given, function))

    def watch(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        on_change: Callable[[IndexReport], Any] | None = None,
        **options: Unpack[IndexOptions],
    ) -> None:
        """Index changes below the folders as they happen, until Ctrl-C or an exception of `on_change`, which is called
        after each. Options as for `index`.

        Raises:
            InvalidInput: no paths, or an option out of range.
            NotFound: nothing was indexed yet, or none of the paths exists.

        While another process writes to the collection, it waits.
        """
        given, folders = checked("watch", options, IndexOptions), _paths(paths)
        if not folders:
            raise InvalidInput("paths: none, expected folders to watch")

        def tell(report: dict[str, Any]) -> None:
            if on_change is not None:
                on_change(IndexReport._of(report))

        with self._writing:
            self._core.watch(folders, given, tell)

    def search(
        self,
        query: str | Query | None = None,
        *,
        image: ImageLike | None = None,
        but: str | None = None,
        without: str | Iterable[str] = (),
        compose: Compose | str | os.PathLike[str] | None = None,
        text_weight: float | None = None,
        was: str | None = None,
        like: int | None = None,
        k: int = 10,
        offset: int = 0,
        filter: str = "",
        keyword_weight: float = 0.5,
        min_probability: float | None = None,
        group_duplicates: bool = True,
        group_above: float = 0.999,
        order: Order = "score",
        chunk_long_text: bool = False,
        candidates: int = 1000,
        exact: bool = False,
        exact_rescore: int = 0,
        rerank: Encoder | None = None,
        rerank_depth: int = 100,
        rerank_by: RerankMethod = "strongest",
        explain: bool = False,
        explain_by: MapMethod | None = None,
    ) -> Answer:
        """Find the images closest to a query.

        Args:
            query: a text, or a `Query`.
            image: an image to search by, with or without a text.
            but: a change in words: "this picture, but ..."
            without: what is not wanted.
            compose: how image and text are combined: "sum", "slerp", "direction", the folder of a trained composer, or
                "starter" for the composer that comes with Saccade; by default the collection's composer, else "sum".
            text_weight: weight of the text beside an image, 0 to 1; not with a composer.
            was: what the image shows now, for `compose="direction"`.
            like: id of an image of the collection, in place of `image`; it is itself left out of the hits.
            k: largest number of hits, with `min_probability` too.
            offset: best hits to leave out; the `k` behind them are the next page.
            filter: condition on images: "width>=1000 and date>=2024" (`saccade help filters`).
            keyword_weight: weight of keyword matches (captions, file and folder names) against visual similarity, 0 to 1.
            min_probability: leave out hits that are less likely to be right, 0 to 1.
            group_duplicates: show near-duplicates grouped under the best of them.
            group_above: minimum cosine similarity of near-duplicates, 0 to 1.
            order: of the hits of a page: "score", or "date" (newest first).
            chunk_long_text: read a text that is longer than the model's context in chunks.
            candidates: with late interaction, images scored by all their vectors; 0 is all.
            exact: score all embeddings, even if the collection has an approximate index. Not in a Weaviate cluster.
            exact_rescore: Weaviate cluster: images that it chooses and that are compared by their full embeddings, at least,
                up to 10,000; 0 is as many as the hits need. A folder ignores it.
            rerank: a second model, which scores the best hits anew from their files and puts them first. Not with
                `min_probability`.
            rerank_depth: hits that it scores, at least 1.
            rerank_by: its score: "cosine", "maxsim" (late interaction), "match" (matching head), or the strongest of these
                that it has.
            explain: explain each hit: contribution of each word of the text, and a map of where in the image its score comes
                from. It takes one to two times as long as encoding the hits' images.
            explain_by: method of the maps: "legrad", "chefer" (about twice as long); None is "legrad", or patch similarity
                with late interaction.

        Raises:
            InvalidInput: a query without content, a broken filter, or an option out of range.
            NotFound: nothing was indexed yet, or no image has the id `like`.
            Unsupported: what the model, its second model or the collection lacks: match probabilities, maps, a matching head.
            NotFound, BadData, Unsupported, LimitExceeded: reading the query's image.

        Takes as long as encoding the query, and one pass over the embeddings that pass the filter; with `rerank` also
        decoding and encoding `rerank_depth` images.
        """
        asked = _query(query, image, but, without, compose, text_weight, was, like)
        options: SearchOptions = {
            "k": k, "offset": offset, "filter": filter, "keyword_weight": keyword_weight,
            "min_probability": min_probability, "group_duplicates": group_duplicates, "group_above": group_above,
            "order": order, "chunk_long_text": chunk_long_text, "candidates": candidates, "exact": exact,
            "exact_rescore": exact_rescore, "rerank": rerank, "rerank_depth": rerank_depth, "rerank_by": rerank_by,
            "explain": explain, "explain_by": explain_by,
        }  # fmt: skip
        given = checked("search", options, SearchOptions)
        [(found, error)] = self._core.search_all([(asked, asked._images())], None, given)
        if error is not None:
            raise error_of(error)
        return Answer._of(found)

    @overload
    def search_all(
        self,
        queries: Iterable[str | Query],
        *,
        errors: Literal["raise"] = "raise",
        progress: bool | ProgressFunction = False,
        **options: Unpack[SearchOptions],
    ) -> list[Answer]: ...
    @overload
    def search_all(
        self,
        queries: Iterable[str | Query],
        *,
        errors: Literal["return"],
        progress: bool | ProgressFunction = False,
        **options: Unpack[SearchOptions],
    ) -> list[Answer | Error]: ...
    def search_all(self, queries, *, errors="raise", progress=False, **options):
        """Answer many queries in one call, faster than one by one.

        Texts are encoded in batches, and up to 64 queries share a pass over the embeddings. Images are encoded one by one.
        Queries with `rerank` or `explain` share no pass. All queries see the collection as it was when the call began.

        Args:
            queries: texts and `Query` objects.
            errors: "raise" raises the error of a query; its `index` says which one it was. "return" returns the error in the
                place of the answer.
            progress: see `Encoder.encode_images`.
            options: those of `search` from `k` on. They apply to all queries.

        Returns:
            An `Answer` for each query, in their order: that of `search`, to the bit. On processors without AVX-512 the last
            digits of scores in fp32 may differ.

        Raises:
            InvalidInput: an option out of range or a broken filter.
            NotFound: nothing was indexed yet.
        """
        if errors not in ("raise", "return"):
            raise InvalidInput(f'errors is {errors!r}, expected "raise" or "return"')
        if isinstance(queries, (str, Query)):
            raise InvalidInput(f"queries: one {type(queries).__name__}, expected a list of them")
        given = checked("search_all", options, SearchOptions)
        asked: list[tuple[Query, Any]] = []
        failed: dict[int, Error] = {}
        for index, query in enumerate(several(queries, "queries", "texts and queries")):
            try:
                one = _query(query, None, None, (), None, None, None, None)
                asked.append((one, one._images()))
            except Error as error:
                error.index = index
                if errors == "raise":
                    raise
                failed[index] = error
        with Progress(progress, len(asked)) as function:
            found = iter(self._core.search_all(asked, function, given))
        answers: list[Answer | Error] = []
        for index in range(len(asked) + len(failed)):
            if index in failed:
                answers.append(failed[index])
                continue
            answer, told = next(found)
            if told is None:
                answers.append(Answer._of(answer))
                continue
            error = error_of(told)
            error.index = index
            if errors == "raise":
                raise error
            answers.append(error)
        return answers

    def like(self, id: int, **options: Unpack[SearchOptions]) -> Answer:
        """Find images similar to one of the collection, which is itself left out. Options as for `search`, from `k` on.

        Raises:
            NotFound: no image has that id.
        """
        return self.search(Query().like(id), **options)

    @property
    def info(self) -> EngineInfo:
        """Facts about the collection; empty before the first `index`."""
        return EngineInfo(**self._core.info())

    @property
    def encoder(self) -> Encoder:
        """The collection's model, loaded if need be. It shares the weights with this engine."""
        return Encoder._of(self._core.encoder(), self._opened_with[4])

    def image(self, image: int | str | os.PathLike[str]) -> IndexedImage:
        """Look an image up by its id, or by the path of its file (absolute, or relative to the working directory). Raises
        NotFound."""
        if isinstance(image, (str, os.PathLike)):
            return IndexedImage(**self._core.image_by_path(path_of(image, "image")))
        return IndexedImage(**self._core.image_by_id(id_of(image)))

    def images(self, filter: str = "") -> list[IndexedImage]:
        """List the images that pass the filter, by id; all without one.

        Raises:
            InvalidInput: a broken filter.
            NotFound: nothing was indexed yet.
            Unsupported: a filter in a Weaviate cluster.
        """
        return [IndexedImage(**image) for image in self._core.images(string(filter, "filter"))]

    @property
    def embeddings(self) -> NDArray[np.float32]:
        """The collection's embeddings as they lie on disk: float32 [rows, dim], a read-only memory map.

        Row `image.row` belongs to an image; rows of removed images stay until the collection is compacted, and `ids` has 0
        for them. The array stays valid, as it is, when the collection changes. With late interaction a row is the mean of
        an image's vectors.
        """
        return self._core.embeddings()[0]

    @property
    def ids(self) -> NDArray[np.int64]:
        """Id of the image of each row of `embeddings`, int64 [rows]; 0 where no image has it."""
        return self._core.embeddings()[1]

    def allowed(self, filter: str = "") -> NDArray[np.bool_]:
        """Tell which rows of `embeddings` have an image that passes the filter: boolean [rows], for
        `saccade.search`. Raises InvalidInput for a broken filter, Unsupported in a Weaviate cluster."""
        return self._core.allowed(string(filter, "filter")).view(np.bool_)

    def vectors(self, id: int) -> NDArray[np.float32]:
        """Vectors of an image with late interaction, float32 [n, dim], each of length 1 up to their stored precision. Raises
        Unsupported without late interaction, NotFound for an unknown id."""
        return self._core.vectors(id_of(id))

    def metadata(self, id: int) -> ImageMetadata:
        """Embedded metadata of an image's file. Raises NotFound."""
        return ImageMetadata(**self._core.metadata(id_of(id)))

    def values(self, field: str, most: int = 100) -> dict[str, int]:
        """Values of a text field ("camera", "keyword", "format", ...) with the number of images that have each, most
        frequent first. Raises InvalidInput for another field."""
        return dict(self._core.values(string(field, "field"), whole(most, "most")))

    @property
    def failed(self) -> list[FailedFile]:
        """Files that could not be indexed, by path."""
        return [FailedFile(path, error_of(error)) for path, error in self._core.failed()]

    def calibration(self, kind: QueryKind = "text") -> Calibration:
        """Calibration that `index` learned for queries of a kind. Raises NotFound if there is none yet, Unsupported with
        late interaction."""
        return Calibration._of(self._core.calibration(string(kind, "kind")))

    def remove(self, ids: int | Iterable[int]) -> None:
        """Remove images by id. Their files stay. Raises NotFound, with nothing removed, if an id is unknown;
        Cancelled while another process writes."""
        given = [ids] if isinstance(ids, (int, np.integer)) else several(ids, "ids", "an id or several")
        listed = [id_of(id) for id in given]
        with self._writing:
            self._core.remove(listed)

    def refresh(self) -> None:
        """Take up what other processes have written."""
        with self._writing:
            self._core.refresh()


def _open_again(
    address: Any,
    encoder: Any,
    create: bool,
    precision: Any,
    threads: int,
    exact_decode: bool = False,
    device: str = "cpu",
) -> Engine:
    return open(
        address,
        encoder=encoder,
        create=create,
        precision=precision,
        threads=threads,
        exact_decode=exact_decode,
        device=device,
    )


def _paths(paths: Any) -> list[bytes]:
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else several(paths, "paths", "a path or several")
    return [path_of(path, "paths") for path in listed]


def _query(
    query: str | Query | None,
    image: Any,
    but: str | None,
    without: str | Iterable[str],
    compose: Compose | str | os.PathLike[str] | None,
    text_weight: float | None,
    was: str | None,
    like: int | None,
) -> Query:
    if isinstance(query, Query):
        asked = query
    elif query is None or isinstance(query, str):
        asked = Query(query)
    else:
        raise InvalidInput(f"query: a {type(query).__name__}, expected a string or a saccade.Query")
    if image is not None:
        asked = asked.and_image(image)
    if like is not None:
        asked = asked.like(like)
    if was is not None:
        asked = asked.was(was)
    if but is not None:
        if asked._text is not None:
            raise InvalidInput("both a text and `but`: give one of them")
        asked = asked.but(but)
    unwanted = [without] if isinstance(without, str) else list(several(without, "without", "a string or several"))
    if unwanted:
        asked = asked.without(*unwanted)
    if compose is None and text_weight is not None:
        compose = "sum"
    return asked if compose is None else asked.compose(compose, text_weight)
