"""Where the updates of a running fit go: a line that is written over, lines of a log, a callable."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mixle.inference.live import FitStatus, Sink
from mixle.inference.search_updates import Named

__all__ = ["choose", "line_of"]

#: Seconds between two updates of a line or a callable, and between two lines of a log.
UPDATE, LOG = 0.1, 1.0
#: Modules whose streams write over a line although they are no terminal.
NOTEBOOKS = ("ipykernel.", "google.colab.")


class _Calls:
    """Updates of a callable."""

    period = UPDATE

    def __init__(self, call: Callable[[FitStatus], Any]) -> None:
        self.call = call

    def show(self, status: FitStatus) -> None:
        self.call(status)

    def clear(self) -> None:
        pass

    def end(self, status: FitStatus | None) -> None:
        if status is not None:
            self.call(status._replace(finished=True, eta=0.0))


class _Stream:
    """Updates of a line that is written over, or lines of a log; a stream that is gone ends them, not the fit."""

    def __init__(self, stream: Any, *, over: bool) -> None:
        self.stream, self.over = stream, over
        self.period = UPDATE if over else LOG
        self._drawn = 0

    def show(self, status: FitStatus) -> None:
        text = line_of(status)
        if self.over:
            text = text[: _width() - 1]
            drawn, self._drawn = self._drawn, len(text)
            self._write(f"\r{text:<{drawn}}")
        else:
            self._write(f"{text}\n")

    def clear(self) -> None:
        if self._drawn:
            self._write(f"\r{'':<{self._drawn}}\r")
            self._drawn = 0

    def end(self, status: FitStatus | None) -> None:
        if status is not None:
            self.show(status._replace(finished=True, eta=None))
        if self._drawn:
            self._write("\n")
            self._drawn = 0

    def _write(self, text: str) -> None:
        if self.stream is None:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            self.stream = None


def _width() -> int:
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, 20)


def line_of(status: FitStatus) -> str:
    """Return a status as one line of ASCII text.

    Examples
    --------
    >>> line_of(FitStatus(12, 100, -28344.0, 4.5, 3.25, 1.25e6, 40.0))
    'EM 12/100, objective -28,344.00, gain 4.5, 1.25 M rows/s, 3.25 s, at most 40 s left'
    """
    from mixle.utils.parallel.observing import units

    parts = [f"EM {status.iteration}/{status.max_its}", f"objective {status.objective:,.2f}", f"gain {status.gain:.3g}"]
    if status.trials > 1:
        parts.insert(0, f"trial {status.trial}/{status.trials}")
    if status.components is not None:
        parts.insert(0, f"{status.components} component{'' if status.components == 1 else 's'}")
    if status.rows_per_second is not None:
        parts.append(f"{units.count(status.rows_per_second)} rows/s")
    parts.append(units.seconds(status.elapsed).replace("µ", "u"))
    if status.eta is not None:
        parts.append(f"at most {units.seconds(status.eta).replace('µ', 'u')} left")
    return ", ".join(parts)


def choose(progress: Any) -> Sink | None:
    """Return the sink that the argument `progress` of `optimize` asks for.

    Raises
    ------
    ValueError
        If it is none of True, False, None, ``"always"`` and a callable.
    """
    if progress is None or progress is False:
        return None
    if isinstance(progress, Named):
        return progress
    if progress is True or progress == "always":
        stream = sys.stderr
        over = _live(stream)
        return _Stream(stream, over=over) if over or progress == "always" else None
    if callable(progress):
        return _Calls(progress)
    raise ValueError(f"progress must be True, False, 'always' or a callable, not {progress!r}")


def _live(stream: Any) -> bool:
    """Return whether a line of `stream` can be written over."""
    if stream is None:
        return False
    if f"{type(stream).__module__}.".startswith(NOTEBOOKS):
        return True
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
