"""Text for a terminal, a pipe or a file, whatever it can print and however it ends."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO

__all__ = ["Screen", "counted"]

#: What is printed where the encoding of the output lacks a character; anything else becomes a question mark.
_PLAIN = str.maketrans({"·": "-", "±": "+/-", "×": "x", "≥": ">=", "≤": "<=", "…": "..."})
_WIDTH = 78


def counted(number: int, plural: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "flights"), counted(4000, "flights")
    ('1 flight', '4,000 flights')
    """
    return f"{number:,} {plural.removesuffix('s') if number == 1 else plural}"


class Screen:
    """A stream to write lines to.

    Parameters
    ----------
    stream : text file or None
        Where the text goes; None (a process without that stream) swallows it.

    Attributes
    ----------
    lost : OSError or None
        The error that ended the output: a reader that went away, a full disk.
    live : bool
        Whether a line can be written over (a terminal).
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream
        self.lost: OSError | None = None
        self.live = stream is not None and stream.isatty()

    def say(self, *lines: str) -> None:
        """Write lines, at once.

        Raises
        ------
        OSError
            If they cannot be written; it is kept in `lost`.
        """
        self._write("".join(f"{line}\n" for line in lines))

    def note(self, line: str) -> None:
        """Write a line if that is possible."""
        with contextlib.suppress(OSError):
            self.say(line)

    def show(self, text: str) -> None:
        """Write `text` over the line on the terminal; elsewhere, and after an error, do nothing."""
        if self.live and self.lost is None:
            with contextlib.suppress(OSError):
                self._write(f"\r{text[:_WIDTH]:<{_WIDTH}}" if text else f"\r{'':<{_WIDTH}}\r")

    def flush(self) -> None:
        """Send what others wrote to the stream; raises as `say` does."""
        self._write("")

    def abandon(self) -> None:
        """Let nothing that is still buffered fail again when the process ends."""
        if self.stream is None:
            return
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, self.stream.fileno())
            finally:
                os.close(nowhere)

    def _write(self, text: str) -> None:
        if self.stream is None:
            return
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError as error:
            self.lost = error
            raise
