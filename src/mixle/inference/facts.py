"""What the bits of a fit depend on, as plain data: two fits with equal facts end with the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixle.errors import CheckpointError, PayloadError, SerializationError
from mixle.stats.serialize import Serializable, digest
from mixle.utils.parallel.folding.build import build_key
from mixle.utils.parallel.folding.digest import digest_of, shard_digest

if TYPE_CHECKING:
    from mixle.inference.fitting import Fit
    from mixle.inference.loop import Loop

__all__ = ["differences", "facts_of"]

_DEPTH = 20


def facts_of(fit: Fit, loop: Loop, handle: Any, rng: Any, previous: Any) -> dict[str, Any]:
    """Return the facts of a fit before its start is drawn.

    Parameters
    ----------
    fit : Fit
        Its settings.
    loop : Loop
        Its loop, with the validation data.
    handle : EncodedFold
        The encoded rows.
    rng : RandomState
        Source of the start.
    previous : distribution or None
        The start, if it is given.

    Raises
    ------
    CheckpointError
        If the rows cannot be digested.
    SerializationError
        If `previous` has no JSON.
    """
    shards = _shards(handle, "the data")
    start: dict[str, Any] = {"previous": None if previous is None else digest(previous)}
    if previous is None:
        start |= {"family": configuration(fit.starter), "init_p": fit.init_p.hex(), "rng": _rng(rng)}
    return {
        "estimator": {"text": f"{fit.estimator!r:.120}", "digest": configuration(fit.estimator)},
        "start": start,
        "rules": {
            "objective": fit.objective,
            "delta": loop.rule.delta,
            "monotone": loop.rule.monotone,
            "track_best": loop.track_best,
            "precision": loop.rule.precision,
        },
        "rows": sum(len(range(*place)) for places, _ in shards for place in places),
        "shards": [[list(place) for place in places] for places, _ in shards],
        "data": [found for _, found in shards],
        "validation": None if loop.validate is None else _validation(loop.validate),
        "build": build_key(),
    }


def differences(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Return how the facts of a checkpoint differ from those of a fit, in words; the build does not count."""
    found = []
    if there["estimator"]["digest"] != here["estimator"]["digest"]:
        texts = [one["estimator"]["text"] for one in (there, here)]
        same = " of other settings" if texts[0] == texts[1] else ""
        found.append(f"it fits {texts[0]}, this call {texts[1]}{same}")
    found += _start(there["start"], here["start"])
    found += [
        f"its {name} is {value!r}, that of this call {here['rules'].get(name)!r}"
        for name, value in {"precision": "float64", **there["rules"]}.items()
        if value != here["rules"].get(name)
    ]
    if there["rows"] != here["rows"]:
        found.append(f"its data have {there['rows']} rows, those of this call {here['rows']}")
    elif there["shards"] != here["shards"]:
        counts = [len(one["shards"]) for one in (there, here)]
        how = f"into {counts[0]} shards, here into {counts[1]}" if counts[0] != counts[1] else "otherwise than here"
        found.append(f"its rows were cut {how} (give the num_shards and sub_chunks of the first fit)")
    elif there["data"] != here["data"] and not found:
        wrong = [
            shard for shard, pair in enumerate(zip(there["data"], here["data"], strict=True)) if len(set(pair)) > 1
        ]
        found.append(f"its data are other rows or weights, in {len(wrong)} of {len(here['data'])} shards: {wrong[:8]}")
    if there["validation"] != here["validation"]:
        found.append("its validation data are others")
    return found


def _start(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    if (there["previous"] is None) != (here["previous"] is None):
        given = "was drawn, this call gives" if there["previous"] is None else "was given, this call gives no"
        return [f"its start {given} prev_estimate"]
    words = {
        "previous": "its prev_estimate is another model",
        "family": "its init_estimator is another",
        "init_p": "its init_p is another",
        "rng": "its seed or rng is another",
    }
    return [text for name, text in words.items() if there.get(name) != here.get(name)]


def _rng(rng: Any) -> str:
    return digest_of(rng.get_state(legacy=False))


def _validation(validate: Any) -> list[str]:
    return [found for _, found in _shards(validate.handle, "the validation data")]


def _shards(handle: Any, what: str) -> list[Any]:
    apply = getattr(handle, "apply", None)
    if not callable(apply):
        raise CheckpointError(
            f"checkpoint= needs a digest of {what}, and a {type(handle).__name__} has none: pass the rows themselves, "
            "or a handle of encoded_data(rows, estimator)"
        )
    try:
        return list(apply(shard_digest))
    except PayloadError as error:
        raise CheckpointError(f"checkpoint= needs a digest of {what}: {str(error).splitlines()[0]}") from error


def configuration(value: Any) -> str:
    """Return a digest of the settings of an estimator; of a user's own, of its attributes as far as they are data."""
    return digest_of(_plain(value, 0))


def _plain(value: Any, depth: int) -> Any:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if depth > _DEPTH:
        return kind
    if isinstance(value, Serializable):
        try:
            return digest(value)
        except SerializationError:
            pass
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return [[_plain(key, depth + 1), _plain(item, depth + 1)] for key, item in value.items()]
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    try:
        digest_of(value)
    except PayloadError:
        attributes = sorted(getattr(value, "__dict__", {}).items())
        return [kind, *([name, _plain(item, depth + 1)] for name, item in attributes if not name.startswith("_cached"))]
    return value
