"""Backends and transports by name: found lazily, suggested when misspelt, refused with what to type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError, EncodedDataControlConflictError, MissingPackage
from mixle.utils.parallel.folding.backends import BUILTIN, NEEDS
from mixle.utils.parallel.folding.controls import DEFAULTS, NEW, same
from mixle.utils.parallel.folding.inputs import check_precision
from mixle.utils.parallel.folding.observed import delivered
from mixle.utils.parallel.folding.protocol import EncodedDataHandle, is_encoded_data_handle

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.transport import Transport

__all__ = [
    "available_encoded_data_backends",
    "encoded_data",
    "register_encoded_data_backend",
    "register_transport",
]

Factory = Callable[..., Any]


_ENCODED_DATA_BACKENDS: dict[str, Factory] = dict(BUILTIN)
_TRANSPORTS: dict[str, Callable[..., Transport]] = {}

#: Backends with a name of their own that cannot be used: why, and what to do.
_UNUSABLE = {
    "torchrun": "not supported: torch devices can be planned for, rows are worked on by numpy",
    "lightning": "not supported: torch devices can be planned for, rows are worked on by numpy",
    "pl": "not supported: torch devices can be planned for, rows are worked on by numpy",
}


def _key(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise BackendError(f"{what} must be a non-empty name, not {name!r}")
    return name.strip().lower()


def register_encoded_data_backend(
    name: str, factory: Factory, aliases: Iterable[str] = (), *, override: bool = False
) -> None:
    """Register an encoded-data backend factory under `name` and any aliases.

    This is the door for foreign handles. Packages may announce theirs in the entry-point group ``mixle.backends``,
    which is read when a name is not known otherwise.

    Parameters
    ----------
    name : str
        Name of the backend; case does not count.
    factory : callable
        Called as ``factory(data, **params)`` with the keyword arguments of `encoded_data`; those that came after the
        documented ones (`num_shards`, `weights`, `force`) only if they are given. It accepts ``**_`` for what it
        ignores and returns a handle.
    aliases : iterable of str
        Further names.
    override : bool
        Replace what is registered.

    Raises
    ------
    TypeError
        If `factory` is not callable.
    ValueError
        If a name is taken by another factory; nothing is registered then.

    Examples
    --------
    >>> register_encoded_data_backend("echo", lambda data, **_: data)
    >>> "echo" in available_encoded_data_backends()
    True
    >>> _ = _ENCODED_DATA_BACKENDS.pop("echo")
    """
    if not callable(factory):
        raise TypeError(f"factory of backend {name!r} must be callable, not {factory!r}")
    keys = [_key(key, "name of a backend") for key in (name, *([aliases] if isinstance(aliases, str) else aliases))]
    taken = [key for key in keys if _ENCODED_DATA_BACKENDS.get(key, factory) is not factory]
    if taken and not override:
        raise BackendError(f"backend {taken[0]!r} is registered already; pass override=True to replace it")
    for key in keys:
        _ENCODED_DATA_BACKENDS[key] = factory


def register_transport(name: str, factory: Callable[..., Transport], *, override: bool = False) -> None:
    """Register a transport, which policies can wrap, as a backend of `encoded_data`.

    Packages may announce theirs in the entry-point group ``mixle.transports``.

    Parameters
    ----------
    name : str
        Name of the backend; case does not count.
    factory : callable
        Called with those of `num_workers`, `client`, `comm`, `root`, `root_only` that are given; returns a
        `Transport`.
    override : bool
        Replace what is registered.

    Raises
    ------
    TypeError
        If `factory` is not callable.
    ValueError
        If the name is taken by another factory.
    """
    if not callable(factory):
        raise TypeError(f"factory of transport {name!r} must be callable, not {factory!r}")
    key = _key(name, "name of a transport")
    taken = key in _ENCODED_DATA_BACKENDS or _TRANSPORTS.get(key, factory) is not factory
    if taken and not override:
        raise BackendError(f"backend {key!r} is registered already; pass override=True to replace it")
    _TRANSPORTS[key] = factory


def _entry_points(group: str) -> dict[str, Any]:
    """Return the entry points of installed packages in `group` by lower-cased name, without loading them."""
    from importlib.metadata import entry_points

    return {point.name.lower(): point for point in entry_points(group=group)}


def available_encoded_data_backends() -> list[str]:
    """Return the sorted names of all registered encoded-data backends.

    Examples
    --------
    >>> {"local", "mp"} <= set(available_encoded_data_backends())
    True
    """
    announced = {*_entry_points("mixle.backends"), *_entry_points("mixle.transports")}
    return sorted({*_ENCODED_DATA_BACKENDS, *_TRANSPORTS, *announced})


def _find(backend: Any) -> Factory:
    """Return the factory of a backend; the error suggests the nearest name."""
    key = _key("local" if backend is None else backend, "backend")
    if key in _ENCODED_DATA_BACKENDS:
        return _ENCODED_DATA_BACKENDS[key]
    if key in _TRANSPORTS:
        return _over_transport(_TRANSPORTS[key])
    for group, wrap in (("mixle.backends", lambda factory: factory), ("mixle.transports", _over_transport)):
        point = _entry_points(group).get(key)
        if point is not None:
            try:
                return wrap(point.load())
            except ImportError as error:
                raise MissingPackage(
                    f"backend {key!r} ({point.value}) cannot be imported: {error}. Install what it needs"
                ) from error
    if key in _UNUSABLE:
        raise BackendError(
            f"backend {key!r} is {_UNUSABLE[key]}. Usable here: {', '.join(available_encoded_data_backends())}"
        )
    raise BackendError(_unknown(key))


def _unknown(key: str) -> str:
    from difflib import get_close_matches

    names = available_encoded_data_backends()
    near = get_close_matches(key, [*names, *_UNUSABLE], n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    missing = _missing(names)
    usable = [name for name in names if name not in missing]
    lacking = ", ".join(f"{name} ({line})" for name, line in missing.items())
    lacks = f". Known but missing a package: {lacking}" if lacking else ""
    return f"Unknown backend {key!r}.{meant} Usable here: {', '.join(usable)}{lacks}"


def _missing(names: Iterable[str]) -> dict[str, str]:
    """Return the backends whose package is not installed, with the line that installs it."""
    from importlib.util import find_spec

    built = {name: NEEDS[name] for name in names if name in NEEDS}
    return {name: need.install for name, need in built.items() if find_spec(need.module) is None}


def _over_transport(factory: Callable[..., Transport]) -> Factory:
    """Return a backend that puts a `Handle` over a registered transport."""

    def build(data: Any, **controls: Any) -> Any:
        from mixle.utils.parallel.folding import inputs
        from mixle.utils.parallel.folding.handle import Handle
        from mixle.utils.parallel.folding.shards import Strided

        options = {
            name: controls[name]
            for name in ("num_workers", "client", "comm", "root", "root_only")
            if not same(controls[name], DEFAULTS[name])
        }
        title = "encoded_data"
        rows = inputs.check_rows(data, title)
        inputs.check_engine(title, controls["engine"], controls["precision"])
        encoder = inputs.choose_encoder(title, controls["estimator"], controls["model"], controls["encoder"])
        default = Strided(inputs.check_count(controls["num_workers"], "num_workers", optional=True) or 1)
        split = {name: controls.get(name) for name in ("num_shards", "num_chunks", "placement")}
        inputs.check_fits(title, split["placement"], controls.get("force", False))
        shard_map = inputs.choose_map(default, len(rows), **split) or default
        weights = inputs.check_weights(controls.get("weights"), len(rows))
        pieces = inputs.check_count(controls["sub_chunks"], "sub_chunks") or 1
        for name in ("resources", "parallel_chunks", "chunk_workers", "materialize"):
            if not same(controls.get(name, DEFAULTS[name]), DEFAULTS[name]):
                raise BackendError(f"this backend takes no {name}; leave it out")
        source = inputs.make_source(rows, encoder, shard_map, pieces, weights, controls["estimator"])
        handle = Handle(_inside(factory(**options), controls.get("policies")), source)
        handle.precision = inputs.check_precision(title, controls["precision"])
        return handle

    return build


def _inside(transport: Transport, policies: Iterable[Any] | None) -> Transport:
    """Return a transport inside its policies; what they refuse closes it."""
    if not policies:
        return transport
    try:
        stacked: Transport = import_module("mixle.utils.parallel.policies.base").stack(transport, policies)
    except BaseException:
        transport.close()
        raise
    return stacked


def encoded_data(
    data: Any,
    estimator: Any | None = None,
    model: Any | None = None,
    encoder: Any | None = None,
    placement: Any | None = None,
    resources: Any | None = None,
    engine: Any | None = None,
    precision: Any | None = None,
    num_chunks: int | None = None,
    sub_chunks: int = 1,
    backend: str = "local",
    num_workers: int | None = None,
    client: Any | None = None,
    comm: Any | None = None,
    root: int = 0,
    root_only: bool = False,
    parallel_chunks: bool = False,
    chunk_workers: int | None = None,
    *,
    num_shards: Any = None,
    weights: Any = None,
    force: bool = False,
    policies: Iterable[Any] | None = None,
    materialize: bool = True,
    telemetry: Any = None,
    run_id: str | None = None,
) -> EncodedDataHandle:
    """Return an encoded-data handle, preserving existing compatible handles.

    Parameters
    ----------
    data : sequence, ndarray or handle
        Rows, or a handle, which is returned unchanged (with any `backend`).
    estimator, model, encoder : optional
        What the rows are encoded for; one of them is needed.
    placement, resources, num_chunks, num_shards : optional
        How rows are split; only one of them. An int for `num_shards` means ``Strided``, `num_chunks` contiguous
        shards.
    engine : optional
        "numpy".
    precision : {"float64", "float32"}, optional
        What E-steps and scores of mixtures compute in; float64 by default. With "float32" sums over blocks of rows,
        parameters and encoded rows stay float64, and so does all that float32 cannot hold (see the page on the
        E-step).
    sub_chunks : int
        Encoded pieces per shard.
    backend : str
        "local", "mp", or a registered name (`available_encoded_data_backends`).
    num_workers, client, comm, root, root_only, parallel_chunks, chunk_workers : optional
        Controls of single backends. A built-in backend refuses those it does not use.
    weights : array_like, shape (n,), optional
        Row weights.
    force : bool
        Encode although the placement says that memory does not suffice (``fits`` is False).
    policies : iterable of Policy, optional
        What happens around each round, e.g. ``[Retry(2)]``; sorted from inner to outer.
    materialize : bool
        Keep what was encoded; with False Dask, Spark and Ray read and encode in every round, in constant memory. Other
        backends keep it always.
    telemetry, run_id : optional
        The `Telemetry` that the handle sends a record per rank and round to, and the tag of the records.

    Returns
    -------
    EncodedDataHandle

    Raises
    ------
    ValueError
        For an unknown backend (the nearest name is suggested), a control that the backend does not use, controls that
        exclude each other, a placement that cannot fit, empty data.
    TypeError
        For data that are no sequence of rows.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> handle = encoded_data([1, 2, 3], PoissonEstimator(), num_shards=2)
    >>> handle.pysp_seq_estimate(PoissonEstimator(), None).lam
    2.0
    """
    controls = {name: value for name, value in locals().items() if name in DEFAULTS}
    if is_encoded_data_handle(data):
        return delivered(_existing(data, controls), backend, telemetry, run_id)
    factory, chosen = _find(backend), check_precision("encoded_data", precision)
    ours = factory in BUILTIN.values()
    if ours:
        controls["precision"] = None
    controls = {k: v for k, v in controls.items() if k not in NEW or not same(v, DEFAULTS[k])}
    handle = delivered(factory(data, **controls), backend, telemetry, run_id)
    if ours:
        handle.precision = chosen  # type: ignore[attr-defined] # every handle of this library has one
    return handle


def _existing(handle: Any, controls: dict[str, Any]) -> EncodedDataHandle:
    """Return `handle`, unless a control asks for something that would need encoding again."""
    ignored = {"estimator", "model"}
    if check_precision("encoded_data", controls["precision"]) == getattr(handle, "precision", None):
        ignored.add("precision")
    if getattr(handle, "encoder", None) is not None and controls["encoder"] == handle.encoder:
        ignored.add("encoder")
    given = [name for name, value in controls.items() if name not in ignored and not same(value, DEFAULTS[name])]
    if given:
        raise EncodedDataControlConflictError(
            f"data is a handle already, its rows are encoded: {', '.join(given)} cannot be applied. "
            "Leave it out, or pass the rows"
        )
    return handle  # type: ignore[no-any-return] # told by structure
