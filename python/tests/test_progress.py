"""Progress: functions, tqdm's bar, plain lines; and errors as exceptions."""

import pickle
import sys

import numpy as np
import pytest
from conftest import COLORS, picture

import saccade
from saccade import _progress


def test_functions_are_told(model, photos, pictures):
    told = []
    images = [picture(color) for color in COLORS] * 3
    model.encode_images(images, batch_size=5, progress=lambda *update: told.append(update))
    assert told[-1] == (12, 12, "encoding images")
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    told.clear()
    model.encode_images(iter(images), batch_size=5, progress=lambda *update: told.append(update))
    assert told[-1] == (12, 0, "encoding images")
    told.clear()
    model.encode_texts(["a"] * 70, progress=lambda *update: told.append(update))
    assert told[-1] == (70, 70, "encoding texts")
    told.clear()
    photos.index(pictures, progress=lambda *update: told.append(update))
    assert told[-1][:2] == (4, 4)


def test_a_functions_exception_ends_the_call(model):
    def refuse(done, total, what):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        model.encode_images((picture("red") for _ in iter(int, 1)), batch_size=2, progress=refuse)
    assert model.encode_texts("a").shape == (model.dim,)


def test_a_bar_with_tqdm(model, capsys):
    pytest.importorskip("tqdm")
    model.encode_images([picture("red")] * 6, batch_size=2, progress=True)
    shown = capsys.readouterr().err
    assert "encoding images" in shown and "6/6" in shown


def test_lines_without_tqdm(model, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(_progress._Lines, "SECONDS", 0)
    model.encode_images([picture("red")] * 6, batch_size=2, progress=True)
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.splitlines()[-1] == "encoding images: 6 of 6"


def test_nothing_is_printed_unasked(model, capfd):
    model.encode_images([picture("red")])
    with pytest.raises(saccade.Error):
        model.encode_images([b"no image"])
    assert capfd.readouterr() == ("", "")


def test_errors_have_a_kind():
    kinds = [getattr(saccade, name) for name in saccade.__all__]
    errors = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, saccade.Error)]
    assert len(errors) == 10 and len({kind.code for kind in errors}) == 9
    assert issubclass(saccade.InvalidInput, ValueError) and issubclass(saccade.NotFound, LookupError)
    with pytest.raises(saccade.NotFound) as raised:
        saccade.load("/nowhere/at/all")
    assert raised.value.code == "not_found" and raised.value.index is None
    again = pickle.loads(pickle.dumps(saccade.BadData("broken", index=3)))
    assert (type(again), str(again), again.index) == (saccade.BadData, "broken", 3)


def test_arrays_stay_when_their_maker_is_gone(starter):
    rows = saccade.load(starter).encode_texts(["a", "b"])
    assert np.isfinite(rows).all() and rows.flags.writeable
