"""Threads, fork, spawn, and Ctrl-C."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from conftest import COLORS, picture

TEXTS = ["a red square", "a bell", "two birds on a branch", "x"]


def test_eight_threads_on_one_encoder(model, pictures):
    images = [pictures / f"{color}.png" for color in COLORS]
    texts, rows = model.encode_texts(TEXTS), model.encode_images(images)
    failed = []

    def work(number):
        try:
            for _ in range(5):
                if number % 2:
                    np.testing.assert_array_equal(model.encode_texts(TEXTS), texts)
                else:
                    np.testing.assert_array_equal(model.encode_images(iter(images)), rows)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_many_threads_search_while_one_indexes(photos, pictures):
    failed = []

    def work():
        try:
            for _ in range(10):
                assert len(photos.search("a red square", k=10)) >= 4
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(5):
        from PIL import Image

        Image.fromarray(picture("red", 61 + number)).save(pictures / f"more-{number}.png")
        photos.index(pictures)
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(photos) == 9


def test_other_threads_run_meanwhile(model):
    pixels = np.zeros((2000, 3, 64, 64), np.float32)
    ticks, ended = 0, threading.Event()

    def tick():
        nonlocal ticks
        while not ended.wait(0.01):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.monotonic()
    model.encode_pixels(pixels, batch_size=2000)
    seconds = time.monotonic() - began
    ended.set()
    thread.join()
    assert ticks >= seconds * 10


def _in_child(queue, model, engine, pixels):
    queue.put(
        (
            model.encode_texts(TEXTS),
            model.encode_images([picture("red"), picture("blue")]),
            [hit.id for hit in engine.search("red")],
            len(engine.encoder.encode_texts("a bell")),
        )
    )


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes(model, photos, method):
    expected = model.encode_texts(TEXTS)
    images = model.encode_images([picture("red"), picture("blue")])
    hits = [hit.id for hit in photos.search("red")]
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=_in_child, args=(queue, model, photos, None)) for _ in range(2)]
    for child in children:
        child.start()
    answers = [queue.get(timeout=120) for _ in children]
    for child in children:
        child.join(timeout=60)
        assert child.exitcode == 0
    for texts, rows, found, dim in answers:
        np.testing.assert_array_equal(texts, expected)
        np.testing.assert_array_equal(rows, images)
        assert found == hits and dim == model.dim
    np.testing.assert_array_equal(model.encode_texts(TEXTS), expected)


def run(script, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def test_a_forked_child_ends_as_usual(starter):
    """The child's interpreter goes down whole, with an encoder that it used and one that it did not."""
    done = run(
        """
        import os, sys, warnings, saccade
        # From Python 3.12 on, fork warns where there are threads. That the child ends is what is tried here.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        used, unused = saccade.load(sys.argv[1]), saccade.load(sys.argv[1])
        used.encode_texts(["a"]), unused.encode_texts(["a"])
        child = os.fork()
        if child == 0:
            used.encode_texts(["b"])
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        unused.encode_texts(["b"])
        """,
        starter,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")


def test_a_child_writes_that_was_forked_while_a_thread_did(starter, pictures, tmp_path):
    """The child has the lock as it was, but not the thread that would release it."""
    done = run(
        """
        import os, sys, threading, warnings, saccade
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        photos = saccade.open(sys.argv[2], encoder=sys.argv[1])
        held, ended = threading.Event(), threading.Event()
        def hold():
            with photos._writing:
                held.set()
                ended.wait()
        threading.Thread(target=hold).start()
        held.wait()
        child = os.fork()
        if child == 0:
            os._exit(photos.index(sys.argv[3]).added)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        ended.set()
        """,
        starter,
        tmp_path / "c",
        pictures,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{len(COLORS)}\n", "")


# What is going on when the interrupt comes; each would take many seconds.
LONG = {
    "images": "model.encode_images(numpy.zeros((200, 200, 3), numpy.uint8) for _ in iter(int, 1))",
    "texts": "model.encode_texts(['two birds on a branch'] * 2_000_000)",
    "one pass": "model.encode_pixels(numpy.zeros((15_000, 3, 64, 64), numpy.float32), batch_size=15_000)",
    "search": "saccade.search(numpy.zeros((1_000_000, 512), numpy.float32), numpy.ones((3000, 512), numpy.float32))",
    "tokens": "model.tokens(['two birds on a branch ' * 20] * 300_000)",
    "token ids": "model.tokenize(['two birds on a branch ' * 20] * 300_000)",
    "calibration": "saccade.Calibration.learn(numpy.zeros((1_000_000, 512), numpy.float32), "
    "numpy.ones((3000, 512), numpy.float32), [[n] for n in range(3000)], texts=['a'] * 3000)",
    "ranks": "saccade.metrics.retrieval(*[numpy.zeros((60_000, 512), numpy.float32)] * 2)",
    "ranks of lists": "saccade.metrics.retrieval(*[saccade.MultiEmbeddings("
    "numpy.zeros((64_000, 128), numpy.float32), range(0, 64_001, 16))] * 2)",
    "resamples": "saccade.metrics.retrieval(*[numpy.ones((5000, 8), numpy.float32)] * 2, resamples=1_000_000)",
    "watch": "[photos.index([folder + '/images']), photos.watch([folder + '/images'])]",
    "lists": "saccade.maxsim(*[saccade.MultiEmbeddings(numpy.zeros((8_000, 128), numpy.float32), range(8_001))] * 2)",
}


@pytest.mark.parametrize("what", list(LONG))
def test_interrupts_stop_within_a_second(starter, what, tmp_path):
    done = run(
        f"""
        import os, signal, sys, threading, time, numpy, saccade
        model, folder = saccade.load(sys.argv[1]), sys.argv[2]
        os.mkdir(folder + "/images")
        photos = saccade.open(folder + "/c", encoder=model)
        model.encode_texts(["a"])
        told = []
        def interrupt():
            told.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(1.0, interrupt).start()
        try:
            {LONG[what]}
        except KeyboardInterrupt:
            print(time.monotonic() - told[0])
        model.encode_texts(["a"])  # goes on
        """,
        starter,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.0


def test_an_interrupted_index_goes_on(starter, tmp_path):
    from PIL import Image

    folder = tmp_path / "many"
    folder.mkdir()
    noise = np.random.default_rng(1)
    for number in range(400):
        Image.fromarray(noise.integers(0, 256, (300, 300, 3), np.uint8)).save(folder / f"{number}.jpg", quality=95)
    script = """
        import os, signal, sys, saccade
        photos = saccade.open(sys.argv[2], encoder=sys.argv[1])
        def interrupt(done, total, what):
            if what == "indexing" and done >= 64:
                os.kill(os.getpid(), signal.SIGINT)
        try:
            photos.index(sys.argv[3], batch_size=8, progress=interrupt)
        except KeyboardInterrupt:
            pass
        else:
            sys.exit("not interrupted")
        print(len(photos))
        print(photos.index(sys.argv[3]).added)
        """
    done = run(script, starter, tmp_path / "c", folder)
    assert done.returncode == 0, done.stderr
    before, added = map(int, done.stdout.split())
    assert 0 < before < 400 and before + added == 400


def test_signals_of_other_threads_calls_wait_for_the_main_thread(model):
    """A call on another thread is not interrupted; the main thread gets the signal."""
    rows = []
    thread = threading.Thread(target=lambda: rows.append(model.encode_pixels(np.zeros((2000, 3, 64, 64), np.float32))))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    thread.join()
    assert rows[0].shape == (2000, model.dim)
