"""Tying: sites of a model that share one statistic under a key.

A leaf has one key. A latent family has a tuple of keys, one for each role (weights, components, ...), None where
nothing is tied. Both passes of `tie` run once, on the combined statistic of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import KeyValidationError
from mixle.stats.contract import parts_of
from mixle.stats.serialize import Serializable, to_plain

__all__ = ["KeyValidationError", "has_keys", "own_keys", "tie", "validate_estimator_keys"]


class Site(NamedTuple):
    """A keyed place of a model: the key, where, which estimator, and which of its roles (None for the whole)."""

    key: Any
    path: str
    estimator: Any
    role: int | None


def own_keys(estimator: Any) -> Any:
    """Return the tying key or keys of this estimator; what a record calls keys are names of fields."""
    tell = getattr(estimator, "_tying_keys", None)
    return tell() if callable(tell) else getattr(estimator, "keys", None)


def sites(estimator: Any, path: str = "") -> Iterator[Site]:
    """Yield the keyed sites of an estimator, parents first; an object used twice counts twice.

    Raises
    ------
    KeyValidationError
        For keys of the wrong form.
    """
    place = f"{path} ({type(estimator).__name__})" if path else type(estimator).__name__
    keys = own_keys(estimator)
    if isinstance(keys, tuple):
        if keys and not parts_of(estimator):
            raise KeyValidationError(f"{place} has one key, keys={keys!r} is a tuple; pass keys={keys[0]!r}")
        for role, key in enumerate(keys):
            if key is not None:
                yield Site(_checked(key, place), place, estimator, role)
    elif keys is not None:
        yield Site(_checked(keys, place), place, estimator, None)
    for name, child in parts_of(estimator):
        yield from sites(child, f"{path}, {name}" if path else name)


def _checked(key: Any, place: str) -> Any:
    if isinstance(key, (bool, np.ndarray)) or not isinstance(key, (str, bytes, int, float, np.generic)):
        raise KeyValidationError(f"{place}: {key!r:.80} cannot be a key; use a string or an integer")
    return key


def has_keys(estimator: Any) -> bool:
    """Return whether any site of `estimator` is keyed.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> has_keys(GaussianEstimator(keys="a")), has_keys(GaussianEstimator())
    (True, False)
    """
    return next(sites(estimator), None) is not None


def validate_estimator_keys(estimator: Any) -> None:
    """Check that every key ties like with like.

    Parameters
    ----------
    estimator : ParameterEstimator
        A leaf, or a tree of combinators.

    Raises
    ------
    KeyValidationError
        If a key is shared by different families, or by sites with different settings or shapes; if it is no scalar; if
        it stands on a part that has nothing to tie; or if estimator and accumulator disagree about what is keyed.

    Examples
    --------
    >>> from mixle.stats import CompositeEstimator, GaussianEstimator, PoissonEstimator
    >>> validate_estimator_keys(CompositeEstimator([GaussianEstimator(keys="a"), PoissonEstimator(keys="a")]))
    Traceback (most recent call last):
        ...
    mixle.errors.KeyValidationError: the key 'a' is used by different families: field 0 (GaussianEstimator) and ...
    """
    first: dict[Any, Site] = {}
    _refuse_nested(estimator, None)
    for site in sites(estimator):
        if type(site.estimator).__name__ == "IgnoredEstimator":
            raise KeyValidationError(
                f"{site.path}: the key {site.key!r} ties nothing, an Ignored part is never fitted; give it none"
            )
        known = first.setdefault(site.key, site)
        if known is not site:
            _compare(known, site)
    _check_accumulator(estimator, set(first))


def _refuse_nested(estimator: Any, outer: Any) -> None:
    """Refuse a key inside a part that is tied as a whole: its statistic would be pooled twice."""
    keys = own_keys(estimator)
    roles = keys if isinstance(keys, tuple) else (keys,)
    for key in roles:
        if key is not None and outer is not None:
            kind = type(estimator).__name__
            raise KeyValidationError(
                f"the key {key!r} of a {kind} lies inside a part tied as a whole by {outer!r}; pass one of them"
            )
    whole = keys if not isinstance(keys, tuple) else keys[1] if len(keys) == 2 else None
    for _, child in parts_of(estimator):
        _refuse_nested(child, outer if whole is None else whole)


def _compare(a: Site, b: Site) -> None:
    both = f"{a.path} and {b.path}"
    if type(a.estimator) is not type(b.estimator):
        raise KeyValidationError(
            f"the key {a.key!r} is used by different families: {both}; give each family a key of its own"
        )
    if a.role != b.role:
        raise KeyValidationError(
            f"the key {a.key!r} is used for different roles: {both}; give each role a key of its own"
        )
    left, right = (_settings(site) for site in (a, b))
    differing = [name for name in left if left[name] != right.get(name)]
    if differing:
        raise KeyValidationError(
            f"the key {a.key!r} is used with different settings ({', '.join(differing)}): {both}; make them equal"
        )


def _settings(site: Site) -> dict[str, Any]:
    """Return what two sites of one key must agree in: everything but labels and keys, children by their own settings.

    Role 0 of a latent family is its weights: there the children count by number only.
    """
    estimator = site.estimator
    children = [child for _, child in parts_of(estimator)]
    result: dict[str, Any] = {"number of parts": len(children)}
    if site.role != 0:
        for i, (name, child) in enumerate(parts_of(estimator)):
            nested = Site(None, name, child, None)
            result[f"{name} of {i}"] = (type(child).__name__, _settings(nested))
    if isinstance(estimator, Serializable):
        for name in estimator.argument_names():
            value = getattr(estimator, name)
            if name not in ("name", "keys") and not _holds(value, children):
                result[name] = repr(to_plain(value))
    return result


def _holds(value: Any, children: list[Any]) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
    return any(item is child for item in inner for child in children)


def _check_accumulator(estimator: Any, keyed: set[Any]) -> None:
    merge = getattr(estimator.accumulator_factory().make(), "key_merge", None)
    if merge is None:
        if keyed:
            raise KeyValidationError(
                f"{type(estimator).__name__} has keys, but its accumulator has no key_merge; it needs one"
            )
        return
    pooled: dict[Any, Any] = {}
    merge(pooled)
    found = set(pooled)
    if found != keyed:
        odd = sorted(map(repr, found ^ keyed))
        kind = type(estimator).__name__
        raise KeyValidationError(f"{kind} and its accumulator disagree about the keys {', '.join(odd)}; pass them on")


def tie(accumulator: Any) -> None:
    """Pool the statistics of each key and give every site the pooled one; done once, on the combined accumulator.

    Parameters
    ----------
    accumulator : StatisticAccumulator
        Duck-typed: passes that it does not have are left out.
    """
    pooled: dict[Any, Any] = {}
    for name in ("key_merge", "key_replace"):
        step = getattr(accumulator, name, None)
        if step is not None:
            step(pooled)
