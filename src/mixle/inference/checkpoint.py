"""A fit on disk after each round, so that the death of its process costs one round."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mixle._log import note
from mixle.errors import CheckpointError, MixleError, SerializationError
from mixle.inference.checkpoint_file import CheckpointFile
from mixle.inference.facts import differences, facts_of
from mixle.inference.loop import Outcome
from mixle.inference.stopping import Score
from mixle.stats.serialize import digest, from_plain, to_plain
from mixle.utils.parallel.folding.inputs import warn_user

if TYPE_CHECKING:
    from mixle.inference.fitting import Fit
    from mixle.inference.loop import Loop

__all__ = ["Record", "checkpoint_file", "trial_files"]


def checkpoint_file(path: Any, resume: Any) -> CheckpointFile | None:
    """Return the file that the arguments `checkpoint` and `resume` of `optimize` mean, before any work.

    Raises
    ------
    CheckpointError
        If the path cannot be a checkpoint, or is one that nobody asked to go on from.
    TypeError
        If `path` is no path, or `resume` no boolean.
    """
    if not isinstance(resume, bool):
        raise TypeError(f"resume must be True or False, not {resume!r}")
    if path is None:
        return None
    file = CheckpointFile(path)
    if not resume and file.exists():
        raise CheckpointError(
            f"{file.path} (or its .previous) exists and resume=False would lose it: name another file, remove both, or "
            "pass resume=True to go on from it"
        )
    return file


def trial_files(path: Any, resume: Any, trials: int) -> list[CheckpointFile | None]:
    """Return the file of each trial of `best_of`: ``path.trial1`` and so on."""
    base = None if path is None else CheckpointFile(path).path
    names = [None if base is None else f"{base}.trial{trial}" for trial in range(1, trials + 1)]
    return [checkpoint_file(name, resume) for name in names]


@dataclass
class Record:
    """The checkpoint of one fit.

    Parameters
    ----------
    file : CheckpointFile
        Where it is kept.
    fit : Fit
        Settings of the fit.
    loop : Loop
        Its loop.
    handle : EncodedFold
        Its rows.
    rng : RandomState
        Source of its start; set to what it was after the start if the fit goes on.
    previous : distribution or None
        Its start, if one was given.
    """

    file: CheckpointFile
    fit: Fit
    loop: Loop
    handle: Any
    rng: Any
    previous: Any = None
    facts: dict[str, Any] = field(init=False)
    _head: str = field(init=False, default="")
    _told: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.facts = facts_of(self.fit, self.loop, self.handle, self.rng, self.previous)

    def load(self, notes: list[str]) -> Outcome | None:
        """Return where the fit stood, None if it has not begun; `notes` gets what happened at its start.

        Raises
        ------
        CheckpointError
            If the file is of another fit, or there are files and none is whole.
        """
        body, wrong = self.file.read()
        if body is None:
            return None
        text = from_json(body, self.file.source)
        self._check(text)
        if wrong:
            self._tell(f"{wrong}; the checkpoint before it, of iteration {text['round']}, is used")
        notes += text["notes"]
        if text["rng"] is not None:
            self.rng.set_state(from_plain(text["rng"]))
        outcome = outcome_of(text)
        if outcome.iterations > self.loop.max_its:
            raise CheckpointError(
                f"{self.file.source} has run {outcome.iterations} iterations; pass max_its={outcome.iterations} for "
                "its model, or more to go on"
            )
        self._begin(notes)
        if not self.loop.ended(outcome):
            self.keep(outcome)
        return outcome

    def begin(self, model: Any, notes: list[str]) -> None:
        """Take the start of a fit that begins.

        Raises
        ------
        SerializationError
            If the model cannot be written as JSON, or not be read again.
        """
        kind = type(model).__name__
        try:
            again = from_plain(json.loads(json.dumps(model.to_dict())))
            same = digest(again) == digest(model)
        except (SerializationError, AttributeError, TypeError, ValueError) as error:
            raise SerializationError(
                f"checkpoint= needs a model that JSON can hold, and {kind} is none: {error}"
            ) from error
        if not same:
            raise SerializationError(
                f"checkpoint= needs a model that JSON holds exactly; {kind} comes back as another one"
            )
        self._begin(notes)

    def _begin(self, notes: list[str]) -> None:
        rng = None if self.previous is not None else to_plain(self.rng.get_state(legacy=False))
        head = json.dumps({"facts": self.facts, "rng": rng, "notes": notes})
        self._head = f"{head[:-1]}, "

    def keep(self, outcome: Outcome) -> None:
        """Write where the fit stands; what prevents it is told once, and the fit goes on."""
        try:
            body = f"{self._head}{json.dumps(plain_of(outcome))[1:]}"
            self.file.write(body.encode(), last=self.loop.ended(outcome))
        except (OSError, MixleError) as error:
            if not self._told:
                self._told = True
                why = error.strerror if isinstance(error, OSError) and error.strerror else error
                self._tell(
                    f"the checkpoint {self.file.path} could not be written at iteration {outcome.iterations}: {why}; "
                    "the fit goes on without it"
                )

    def check_score(self, outcome: Outcome, score: Score) -> None:
        """Say so if the model of the checkpoint scores otherwise here than where it was written."""
        if to_plain(tuple(score)) != to_plain(tuple(outcome.last)):
            self._tell(
                f"the model of {self.file.source} scores {score.objective!r} here and scored "
                f"{outcome.last.objective!r} there, so the bits of this fit will not be those of an unbroken one"
            )

    def _tell(self, message: str) -> None:
        note("warning", "checkpoint", message, path=str(self.file.path))
        warn_user(message)

    def _check(self, text: dict[str, Any]) -> None:
        found = differences(text["facts"], self.facts)
        if found:
            raise CheckpointError(
                f"{self.file.source} is the checkpoint of another fit: {'; '.join(found)}. Name another file, or "
                "remove this one to start anew"
            )
        there, here = text["facts"]["build"], self.facts["build"]
        if there != here:
            self._tell(f"{self.file.source} was written with {there}, this process has {here}: bits may differ")


def plain_of(outcome: Outcome) -> dict[str, Any]:
    """Return where a fit stands as JSON data."""
    told = getattr(outcome.model, "numerical_repairs", None)
    return {
        "round": outcome.iterations,
        "accepted": outcome.accepted,
        "stopped": outcome.stopped,
        "gain": to_plain(outcome.gain),
        "validation": to_plain(outcome.validation),
        **{name: to_plain(list(getattr(outcome, name))) for name in ("score", "start", "last")},
        "history": to_plain([list(step) for step in outcome.history]),
        "model": to_plain(outcome.model),
        "repairs": list(told()) if callable(told) else [],
        "reached": None if outcome.reached is outcome.model else to_plain(outcome.reached),
    }


def outcome_of(text: dict[str, Any]) -> Outcome:
    """Return the outcome that `plain_of` wrote."""
    from mixle.stats.leaf import repaired

    score, start, last = (Score(*from_plain(text[name])) for name in ("score", "start", "last"))
    model = from_plain(text["model"])
    if model is not None and text["repairs"]:
        repaired(model, *text["repairs"])
    reached = model if text["reached"] is None else from_plain(text["reached"])
    outcome = Outcome(model, score, from_plain(text["validation"]), start, last, reached=reached)
    outcome.iterations, outcome.accepted, outcome.stopped = text["round"], text["accepted"], text["stopped"]
    outcome.gain = from_plain(text["gain"])
    outcome.history = [tuple(step) for step in from_plain(text["history"])]
    return outcome


def from_json(body: bytes, path: Any) -> dict[str, Any]:
    """Return the JSON of a checkpoint whose checksum held."""
    try:
        text = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is a checkpoint that cannot be read: {error}; move it away") from error
    if not isinstance(text, dict) or "facts" not in text:
        raise CheckpointError(f"{path} is a checkpoint that cannot be read: it is of another version; move it away")
    return text
