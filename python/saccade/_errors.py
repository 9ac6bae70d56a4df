"""Exceptions, one class for each kind of failure. Messages are the library's own."""

from __future__ import annotations


class Error(Exception):
    """Base of all errors of Saccade.

    `code` is the kind's name as the command line and the server have it ("not_found"). `index` is the position of the
    input at fault among those of the call, or None.
    """

    code: str = "internal"

    def __init__(self, message: str, *, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index

    def __reduce__(self):
        return (_remade, (type(self), str(self), self.index))


def _remade(kind: type[Error], message: str, index: int | None) -> Error:
    return kind(message, index=index)


class InvalidInput(Error, ValueError):
    """An argument is wrong: its value, type or shape."""

    code = "usage"


class NotFound(Error, LookupError):
    """A file, folder, image or model is not there."""

    code = "not_found"


class BadData(Error, ValueError):
    """A file or an array breaks its format."""

    code = "bad_data"


class Unsupported(Error):
    """Well-formed, but of a kind that Saccade or this model does not handle."""

    code = "unsupported"


class LimitExceeded(Error):
    """Larger or slower than a limit allows, or memory ran out."""

    code = "limit"


class Mismatch(Error, ValueError):
    """Does not belong to what it is used with: another model, another width."""

    code = "mismatch"


class SystemFailure(Error):
    """The operating system refused, such as for a full disk."""

    code = "io"


class Cancelled(Error):
    """Ended early on request, or another process is writing to the collection."""

    code = "cancelled"


class Internal(Error):
    """A failure of Saccade or of a library that it uses."""

    code = "internal"


_KINDS: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        InvalidInput,
        NotFound,
        BadData,
        Unsupported,
        LimitExceeded,
        Mismatch,
        SystemFailure,
        Cancelled,
        Internal,
    )
}


def error_of(found: tuple[str, str]) -> Error:
    """Make the exception of a (kind, message) of the library."""
    kind, message = found
    return _KINDS.get(kind, Internal)(message)
