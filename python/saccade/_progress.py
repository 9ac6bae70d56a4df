"""Progress for people: a bar if tqdm is installed, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

ProgressFunction = Callable[[int, int, str], Any]
"""Called as `function(done, total, what)`; `total` is 0 where it is not known."""


class _Bar:
    def __init__(self, tqdm: Any, total: int) -> None:
        self._tqdm, self._total, self._bar, self._what = tqdm, total, None, ""

    def __call__(self, done: int, total: int, what: str) -> None:
        total = total or self._total
        if self._bar is None or what != self._what:
            self.close()
            self._bar, self._what = self._tqdm(total=total or None, desc=what), what
        if total and self._bar.total != total:
            self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class _Lines:
    SECONDS = 2.0

    def __init__(self, total: int) -> None:
        self._total, self._told, self._line = total, time.monotonic(), ""

    def __call__(self, done: int, total: int, what: str) -> None:
        total = total or self._total
        self._line = f"{what}: {done} of {total}" if total else f"{what}: {done}"
        if time.monotonic() - self._told >= self.SECONDS or done == total:
            self.close()

    def close(self) -> None:
        if self._line:
            print(self._line, file=sys.stderr, flush=True)
        self._line, self._told = "", time.monotonic()


class Progress:
    """What the library calls while a call runs. `progress` is False, True or a ProgressFunction."""

    def __init__(self, progress: bool | ProgressFunction, total: int = 0) -> None:
        self._shown: Any = None
        self.function: ProgressFunction | None = None
        if callable(progress):
            self.function = lambda done, of, what: progress(done, of or total, what)
        elif progress:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                self._shown = _Lines(total)
            else:
                self._shown = _Bar(tqdm, total)
            self.function = self._shown

    def __enter__(self) -> ProgressFunction | None:
        return self.function

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.close()
