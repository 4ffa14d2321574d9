"""The recorder of events, in memory and in an append-only file."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self
from zlib import crc32

from mixle._log import note
from mixle.telemetry.event import Event, Source, check_kind
from mixle.telemetry.journal import Journal
from mixle.telemetry.plain import encode
from mixle.telemetry.rows import amend, amendment, event_of

__all__ = ["Telemetry", "get_default_recorder", "record", "set_default_recorder"]

_OPEN: weakref.WeakSet[Telemetry] = weakref.WeakSet()


class Telemetry:
    """Typed events, kept in memory and, with a path, appended to a JSONL file.

    One event is one line: the JSON of `Event.as_row`. An edit of an event that is in the file already, such as
    ``event.outcome["seconds"] = 3.0``, is appended as an amendment and is there after the file is read again. The file
    is never rewritten: several processes may append to it, rows of other programs stay, and a torn or foreign line
    costs itself only. A value that JSON cannot hold is written as text; the event in memory keeps it.

    A file that takes no more (a full disk) does not stop the program that records: the error is logged, warned of once
    and kept in `write_error`, the rows wait in memory, and `flush` or `close` raise it.

    Parameters
    ----------
    path : str or path-like, optional
        JSONL file; what it holds is loaded, and folders above it are made.
    flush_every : int
        Events (or edits) per write.

    Attributes
    ----------
    path : Path or None
        The file.
    foreign : int
        Lines of the file that were no events, at loading.
    write_error : OSError or None
        What the last write failed with.

    Raises
    ------
    ValueError
        If `flush_every` is not a positive integer.

    Examples
    --------
    >>> recorder = Telemetry()
    >>> event = recorder.record("fit", features={"rows": 10}, outcome={"seconds": 0.5}, tags={"run_id": "a"})
    >>> event.ts, len(recorder), [event.kind for event in recorder.events(run_id="b")]
    (1.0, 1, [])
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, flush_every: int = 1) -> None:
        if isinstance(flush_every, bool) or not isinstance(flush_every, int) or flush_every < 1:
            raise ValueError(f"flush_every must be a positive integer, not {flush_every!r}")
        self.flush_every = flush_every
        self.foreign = 0
        self.write_error: OSError | None = None
        self._events: list[Event] = []
        self._clock = 0.0
        self._begin()
        self._journal = None if path is None else Journal(path)
        self.path = None if self._journal is None else self._journal.path
        if self._journal is not None:
            with _no_collection():
                self._load(self._journal)
            _OPEN.add(self)

    def record(
        self,
        kind: str,
        *,
        features: Mapping[str, Any] | None = None,
        choice: Any = None,
        outcome: Mapping[str, Any] | None = None,
        tags: Mapping[str, Any] | None = None,
        when: float | None = None,
    ) -> Event:
        """Record one event.

        Parameters
        ----------
        kind : str
            One of `EVENT_KINDS`.
        features, outcome, tags : mapping, optional
            See `Event`; copied.
        choice : Any
            See `Event`.
        when : float, optional
            Time stamp; by default a clock that counts 1.0, 2.0, ... and is never behind an earlier `when`.

        Returns
        -------
        Event
            Later edits of it reach the file.

        Raises
        ------
        ValueError
            For an unknown kind or a time stamp that is not finite; nothing is recorded then.
        """
        self._collect()
        with self._lock:
            ts = self._clock + 1.0 if when is None else when
            event = Event(kind, dict(features or {}), choice, dict(outcome or {}), dict(tags or {}), ts)
            self._clock = max(self._clock, event.ts)
            self._events.append(event.attach(self._edited))
            if self._journal is not None:
                self._new.append(event)
                self._watch(event)
                self._count()
        return event

    def record_all(self, kind: str, rows: Iterable[tuple[dict[str, Any], Any, dict[str, Any]]]) -> None:
        """Record several events of one kind in one write, stamped by the recorder's clock.

        Parameters
        ----------
        kind : str
            One of `EVENT_KINDS`.
        rows : iterable of (features, choice, tags)
            See `Event`; the dicts are taken over, not copied.
        """
        check_kind(kind)
        self._adopt()
        with self._lock:
            made = []
            for features, choice, tags in rows:
                self._clock += 1.0
                made.append(Event.trusted(kind, features, choice, tags, self._clock).attach(self._edited))
            self._events += made
            if self._journal is not None and made:
                self._new += made
                self._count(len(made))

    def expect(self, source: Source) -> None:
        """Let ``source.send()`` record its events before another is recorded, these are read or the file is closed.

        Parameters
        ----------
        source : object
            Has a method `send`, which is called once; it is not kept alive.
        """
        self._adopt()
        with self._lock:
            self._sources.add(source)

    def events(self, kind: str | None = None, *, run_id: str | None = None) -> Iterator[Event]:
        """Iterate over the events in the order of recording.

        Parameters
        ----------
        kind : str, optional
            Only this kind.
        run_id : str, optional
            Only events with this tag.
        """
        self._collect()
        for event in list(self._events):
            if kind in {None, event.kind} and (run_id is None or event.tags.get("run_id") == run_id):
                yield event

    def runs(self) -> tuple[Any, ...]:
        """Return the run ids in the order of their first event; None stands for events without one."""
        self._collect()
        return tuple(dict.fromkeys(event.tags.get("run_id") for event in self._events))

    def training_rows(self, kind: str) -> list[tuple[dict[str, Any], Any, dict[str, Any]]]:
        """Return ``(features, choice, outcome)`` of the events of a kind."""
        return [(dict(event.features), event.choice, dict(event.outcome)) for event in self.events(kind)]

    def flush(self) -> None:
        """Write what waits, edits deep inside an outcome included.

        Raises
        ------
        OSError
            If the file takes no more; what was not written waits.
        """
        self._collect()
        with self._lock:
            for event, written in list(self._watched.values()):
                if encode(event.outcome) != written:
                    self._changed.setdefault(id(event), (event, set()))[1].add("outcome")
                    self._watch(event)
            self._write()
            if self.write_error is not None:
                raise self.write_error

    def close(self) -> None:
        """Flush and close the file; a later event opens it again."""
        if self._journal is None:
            self._collect()
            return
        try:
            self.flush()
        finally:
            self._journal.close()

    def __len__(self) -> int:
        self._collect()
        return len(self._events)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Telemetry({'' if self.path is None else repr(str(self.path))}): {len(self)} events"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_journal", None) is not None:
            _finish(self)

    def _begin(self) -> None:
        """Start with nothing to write."""
        self._pid, self._lock, self._unwritten = os.getpid(), threading.RLock(), 0
        self._new: list[Event] = []
        self._changed: dict[int, tuple[Event, set[str]]] = {}
        self._watched: dict[int, tuple[Event, bytes]] = {}
        self._sources: weakref.WeakSet[Source] = weakref.WeakSet()

    def _collect(self) -> None:
        """Let those who keep events record them."""
        self._adopt()
        if self._sources:
            with self._lock:
                sources = list(self._sources)
                self._sources.clear()
            for source in sources:
                source.send()

    def _adopt(self) -> None:
        """After a fork, leave to the parent what it has not written yet."""
        if self._pid != os.getpid():
            self._begin()

    def _edited(self, event: Event, name: str) -> None:
        """Take note of an edit of an event."""
        self._adopt()
        with self._lock:
            if self._journal is None:
                return
            if "_row" in event.__dict__:
                self._changed.setdefault(id(event), (event, set()))[1].add(name)
            self._watch(event)
            self._count()

    def _watch(self, event: Event) -> None:
        """Remember an outcome with containers inside, whose edits are seen only by looking."""
        if any(isinstance(value, (dict, list)) for value in event.outcome.values()):
            self._watched[id(event)] = (event, encode(event.outcome))
        else:
            self._watched.pop(id(event), None)

    def _count(self, events: int = 1) -> None:
        self._unwritten += events
        if self._unwritten >= self.flush_every:
            self._write()

    def _write(self) -> None:
        """Append new rows, then amendments; what cannot be written waits, and the error is kept."""
        if self._journal is None:
            return
        changed = list(self._changed.values())
        if not (self._new or changed):
            return
        lines = [encode(event.row()) for event in self._new] + [amendment(event, names) for event, names in changed]
        self._unwritten, done = 0, 0
        try:
            for offset in self._journal.append(lines):
                if done < len(self._new):
                    self._new[done].__dict__["_row"] = (offset, crc32(lines[done][:-1]))
                done += 1
            self.write_error = None
        except OSError as error:
            self._report(error)
        fresh = len(self._new)
        self._new = self._new[done:]
        for event, _ in changed[: max(0, done - fresh)]:
            del self._changed[id(event)]

    def _report(self, error: OSError) -> None:
        first, self.write_error = self.write_error is None, error
        if not first:
            return
        text = f"telemetry cannot be written to {self.path}: {error}; events wait in memory, flush() tries again"
        note("warning", "telemetry", text, path=str(self.path), errno=error.errno)
        # Where warnings are errors a fit goes on without its log.
        with suppress(RuntimeWarning):
            warnings.warn(text, RuntimeWarning, stacklevel=4)

    def _load(self, journal: Journal) -> None:
        """Read the events of the file, then let amendments take effect."""
        import json

        read, rows = json.loads, {}
        for offset, line in journal.lines():
            try:
                row = read(line)
            except (ValueError, RecursionError):
                self.foreign += bool(line.strip())
                continue
            event = event_of(row)
            if event is not None:
                rows[offset] = event
                event.__dict__["_row"] = (offset, crc32(line))
            elif not amend(rows, row):
                self.foreign += 1
        self._events = [event.attach(self._edited) for event in rows.values()]
        for event in self._events:
            if event.outcome:
                self._watch(event)
        self._clock = max((event.ts for event in self._events), default=0.0)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the cyclic collector: it would walk what is read so far again and again, and there is no garbage."""
    import gc

    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _finish(recorder: Telemetry) -> None:
    """Write what waits, without an error: nobody is left to take it."""
    try:
        recorder.close()
    except Exception as error:  # noqa: BLE001 - the interpreter may be half gone
        note("error", "telemetry", f"telemetry is lost: {error}", path=str(recorder.path))


@atexit.register
def _finish_all() -> None:
    for recorder in list(_OPEN):
        _finish(recorder)


_default: list[Telemetry] = []


def get_default_recorder() -> Telemetry:
    """Return the recorder of this process: the one that was set, else one in memory, made when first asked for."""
    if not _default:
        _default.append(Telemetry())
    return _default[0]


def set_default_recorder(recorder: Telemetry | None) -> None:
    """Set the recorder that `record` uses, for the whole process; None goes back to a new one in memory.

    Parameters
    ----------
    recorder : Telemetry or None
        Where `record` goes from now on.

    Examples
    --------
    >>> set_default_recorder(None)
    >>> record("fit").kind, len(get_default_recorder())
    ('fit', 1)
    >>> set_default_recorder(None)
    """
    if recorder is not None and not isinstance(recorder, Telemetry):
        raise TypeError(f"expected a Telemetry or None, not {type(recorder).__name__}")
    _default[:] = [] if recorder is None else [recorder]


def record(kind: str, **details: Any) -> Event:
    """Record an event with the recorder of this process, as `Telemetry.record` does, and return it."""
    return get_default_recorder().record(kind, **details)
