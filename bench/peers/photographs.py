"""From JPEG files to embeddings by Saccade and by other programs, for bench/peers/compare.

The other programs decode and resize on as many threads as Saccade has, and their encoders have as many."""
import concurrent.futures
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy

from encoders import DEVIATION, MEAN, SIDE, Encoders, name_in
from turns import MODELS, Cell, cosine, repeated

BATCH = 16


def made_photographs(folder, count, width=1600, height=1200):
    """Returns JPEG files of quality 90: smooth shapes with grain, as large as a camera's. Eight are drawn; the others
    repeat them with a comment, so that no two files are equal."""
    from PIL import Image
    folder.mkdir(exist_ok=True)
    random = numpy.random.default_rng(9)
    files, drawn = [], []
    for i in range(count):
        files.append(folder / f"photograph-{i:04}.jpg")
        if i < 8:
            coarse = Image.fromarray(random.integers(0, 256, (15, 20, 3), dtype=numpy.uint8))
            smooth = numpy.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), numpy.float32)
            grain = smooth + random.standard_normal(smooth.shape, dtype=numpy.float32) * 6
            file = io.BytesIO()
            Image.fromarray(grain.clip(0, 255).astype(numpy.uint8)).save(file, "JPEG", quality=90)
            drawn.append(file.getvalue())
        if not files[i].exists():
            comment = f"{i:04}".encode()
            segment = b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment
            files[i].write_bytes(drawn[i % 8][:2] + segment + drawn[i % 8][2:])
    return files


def files_of(context):
    """Returns the photographs to read: the user's, or made ones of --megapixels, four to three. They are fewer than BATCH, or
    a multiple of it, so that all batches are full."""
    options = context.options
    if options.photographs:
        files = sorted(pathlib.Path(options.photographs).resolve().glob("*.jpg"))[:options.count]
        if not files:
            sys.exit(f"compare: {options.photographs} has no files *.jpg")
        return full_batches(files)
    height = round((options.megapixels * 1e6 * 3 / 4) ** 0.5)
    folder = context.folder / f"photographs-{options.megapixels:g}-{options.count}"
    return full_batches(made_photographs(folder, options.count, round(height * 4 / 3), height))


def full_batches(files):
    return files if len(files) < BATCH else files[:len(files) // BATCH * BATCH]


def normalized(image):
    """Returns the encoder's input of a square image, [SIDE, SIDE, 3] of bytes."""
    pixels = image.astype(numpy.float32) / 255
    return ((pixels - numpy.float32(MEAN)) / numpy.float32(DEVIATION)).transpose(2, 0, 1)


def pillow_reads(draft):
    """Returns a function from bytes to input, by Pillow and transformers' own preprocessing. `draft`: decodes a large JPEG
    at a reduced size, at least twice the input's."""
    import transformers
    from PIL import Image
    by_pillow = "CLIPImageProcessorPil"  # since transformers 5, whose default is torchvision
    prepare = getattr(transformers, by_pillow if hasattr(transformers, by_pillow) else "CLIPImageProcessor")()

    def read(bytes_):
        image = Image.open(io.BytesIO(bytes_))
        if draft:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))
        pixels = prepare(images=image.convert("RGB"), return_tensors="np")["pixel_values"]
        return numpy.asarray(pixels[0], numpy.float32)
    return read


def opencv_reads(reduced):
    """The same by OpenCV. `reduced`: decodes at the smallest of a half, a quarter and an eighth that has at least twice the
    input's pixels."""
    import cv2
    cv2.setNumThreads(1)  # the caller has threads

    def flag_of(bytes_):
        if not reduced:
            return cv2.IMREAD_COLOR
        from PIL import Image  # reads the header alone
        shorter = min(Image.open(io.BytesIO(bytes_)).size)
        for factor, flag in ((8, cv2.IMREAD_REDUCED_COLOR_8), (4, cv2.IMREAD_REDUCED_COLOR_4),
                             (2, cv2.IMREAD_REDUCED_COLOR_2)):
            if shorter >= factor * 2 * SIDE:
                return flag
        return cv2.IMREAD_COLOR

    def read(bytes_):
        image = cv2.imdecode(numpy.frombuffer(bytes_, numpy.uint8), flag_of(bytes_))
        height, width = image.shape[:2]
        scale = SIDE / min(height, width)
        height, width = max(SIDE, round(height * scale)), max(SIDE, round(width * scale))
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
        top, left = (height - SIDE) // 2, (width - SIDE) // 2
        return normalized(image[top:top + SIDE, left:left + SIDE, ::-1])
    return read


def vips_reads():
    """The same by libvips' thumbnail, which decodes a large JPEG at a reduced size."""
    os.environ.setdefault("VIPS_CONCURRENCY", "1")  # the caller has threads
    import pyvips

    def read(bytes_):
        image = pyvips.Image.thumbnail_buffer(bytes_, SIDE, height=SIDE, crop=pyvips.Interesting.CENTRE)
        return normalized(image.numpy()[:, :, :3])
    return read


def encode_of(encoders, program, precision, count):
    """Returns a function from `count` inputs to embeddings."""
    if program == "transformers":
        return encoders.torch_encodes("images", precision)
    example = numpy.random.default_rng(10).standard_normal((count, 3, SIDE, SIDE), dtype=numpy.float32)
    return encoders.openvino_encodes("images", example, precision)


def photograph_cells(context, model):
    """Yields cells from the bytes of BATCH files to embeddings, decoded whole and at a reduced size."""
    options, ours, folder = context.options, context.ours, context.checkpoint(model)
    files = files_of(context)[:BATCH]
    listed, rows_file = context.folder / "list", context.folder / "rows"
    listed.write_text("".join(f"{file}\n" for file in files))
    contents = [file.read_bytes() for file in files]
    encoders = Encoders(folder, options.threads)
    pool = concurrent.futures.ThreadPoolExecutor(options.threads)

    def their(make_read, program, precision):
        def make():
            read, encode = make_read(), encode_of(encoders, program, precision, len(contents))
            return repeated(lambda: encode(numpy.stack(list(pool.map(read, contents)))))
        return make

    for precision in options.precisions:
        for how, word in (("exact", "decoded whole"), ("fast", "decoded at a reduced size")):
            fast = how == "fast"
            size = "" if options.photographs else f" of {options.megapixels:g} megapixels"
            work = f"{len(files)} JPEGs{size} in memory to embeddings, {word}"
            cell = Cell(f"{work}, {model}, {precision}", "images/s", len(files), cosine, "minimum cosine",
                        part="photographs", model=model, precision=precision, batch=len(files), work=work)

            def mine(precision=precision, how=how):
                ours.ask("load", folder, precision)
                return ours.runs(lambda: numpy.fromfile(rows_file, numpy.float32).reshape(-1, MODELS[model].width),
                                 "photographs", listed, how, rows_file)
            cell.add("saccade", mine)
            if precision != "int8":
                cell.add("Pillow draft, transformers" if fast else "Pillow, transformers",
                         their(lambda: pillow_reads(fast), "transformers", precision))
            cell.add(f"OpenCV{' reduced' if fast else ''}, {name_in(precision, 'OpenVINO')}",
                     their(lambda: opencv_reads(fast), "OpenVINO", precision))
            yield cell
    pool.shutdown()


def script(files, read, encode, out, threads):
    """Writes the embeddings of files and their paths, as a script of one's own does: later files are read and decoded while
    the encoder works."""
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        inputs = pool.map(lambda file: read(file.read_bytes()), files)
        rows, batch = [], []
        for one in inputs:
            batch.append(one)
            if len(batch) == min(BATCH, len(files)):
                rows.append(encode(numpy.stack(batch)))
                batch = []
    rows = numpy.concatenate(rows)
    numpy.save(out / "rows.npy", rows / numpy.linalg.norm(rows, axis=1, keepdims=True))
    (out / "paths.json").write_text(json.dumps([str(file) for file in files]))


class Indexing:
    """A program of a cell: `saccade index` of a folder into a new collection, once, as a process of its own. Its seconds
    are those of the whole process, loading the encoder included, which the others have loaded before: their advantage."""

    def __init__(self, context, checkpoint, folder, count, precision):
        self.collection = context.folder / "collection"
        self.count, self.seconds = count, []
        self.command = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:context.options.threads])),
                        context.options.saccade, "index", str(folder), "-c", str(self.collection), "-m", str(checkpoint),
                        "--precision", precision, "--json"]
        # The program's memory of fingerprints, so that it does not hash the weights in each turn.
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(context.folder / "cache"))

    def __call__(self, least=0):
        shutil.rmtree(self.collection, ignore_errors=True)
        start = time.perf_counter()
        done = subprocess.run(self.command, env=self.environment, capture_output=True, text=True, check=False)
        taken = time.perf_counter() - start
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"saccade index ended with {done.returncode}")
        report = json.loads(done.stdout)
        if report["added"] != self.count:
            raise RuntimeError(f"saccade index added {report['added']} of {self.count} images")
        self.seconds.append(report["seconds"])
        return taken, None

    def shares(self):
        """Returns each stage's share of the work of all turns. Reading, decoding and resizing are summed over their
        threads; encoding, which has all threads, is by the clock."""
        stages = {"read": "read", "decode": "decode", "resize": "preprocess", "encode": "encode"}
        sums = {shown: sum(turn[stage] for turn in self.seconds) for shown, stage in stages.items()}
        return {shown: seconds / sum(sums.values()) for shown, seconds in sums.items()}


class IndexCell(Cell):
    """A cell whose report has Saccade's shares."""

    indexing = None

    def report(self, rounds, figures):
        found = super().report(rounds, figures)
        if self.indexing and self.indexing.seconds:
            found["shares"] = self.indexing.shares()
        return found


def index_cells(context, model):
    """Yields cells of a folder of photographs to a collection, or to a file of embeddings by scripts whose encoder is
    loaded before the clock starts."""
    options, checkpoint = context.options, context.checkpoint(model)
    files = files_of(context)
    encoders = Encoders(checkpoint, options.threads)
    out = context.folder / "scripts"
    out.mkdir(exist_ok=True)
    size = "" if options.photographs else f" of {options.megapixels:g} megapixels"
    for precision in options.precisions:
        work = f"index of {len(files)} JPEGs{size}"
        cell = IndexCell(f"{work}, {model}, {precision}", "images/s", len(files), part="index", model=model,
                         precision=precision, batch=len(files), work=work)

        def mine(cell=cell, precision=precision):
            # The folder holds these files alone, whatever else the user's has.
            folder = context.folder / "indexed"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for file in files:
                os.link(file, folder / file.name) if file.stat().st_dev == folder.stat().st_dev else shutil.copy(file, folder)
            cell.indexing = Indexing(context, checkpoint, folder, len(files), precision)
            return cell.indexing

        def their(make_read, program, precision=precision):
            def make():
                read, encode = make_read(), encode_of(encoders, program, precision, min(BATCH, len(files)))
                return repeated(lambda: script(files, read, encode, out, options.threads))
            return make

        cell.add("saccade", mine)
        encoder = "transformers" if precision != "int8" else "OpenVINO"
        shown = name_in(precision, encoder)
        cell.add(f"Pillow draft, {shown}", their(lambda: pillow_reads(True), encoder))
        cell.add(f"libvips thumbnail, {shown}", their(vips_reads, encoder))
        if encoder != "OpenVINO":
            cell.add("libvips thumbnail, OpenVINO", their(vips_reads, "OpenVINO"))
        yield cell
