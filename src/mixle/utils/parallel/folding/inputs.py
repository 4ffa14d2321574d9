"""What a handle accepts, checked before any work starts: each refusal names the line to type."""

from __future__ import annotations

import math
import numbers
import operator
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from mixle.errors import BackendError, ContractError, EmptyDataError, ImpossibleEvidenceError
from mixle.stats.refusals import shown
from mixle.utils.parallel.folding.encoders import check_instance, encoder_of_model
from mixle.utils.parallel.folding.refusals import no_rows
from mixle.utils.parallel.folding.shards import Contiguous, ShardMap, as_shard_map, cut
from mixle.utils.parallel.folding.transport import Source

__all__ = [
    "check_count",
    "check_engine",
    "check_fits",
    "check_probability",
    "check_rows",
    "check_weights",
    "choose_encoder",
    "choose_map",
    "is_cluster_collection",
    "make_source",
    "random_state",
    "row_count",
    "warn_user",
]


def _refusal(data: Any) -> str | None:
    """Return what is wrong with `data` as rows and the line to type, or None."""
    kind = f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")
    if data is None:
        return "None is not data: pass a list of rows or an array"
    if isinstance(data, type):
        return f"the class {data.__name__} is not data: pass a list of rows or an array"
    if isinstance(data, (str, bytes, bytearray, memoryview)):
        return f"{kind} is one value, not rows: pass [data] or list(data)"
    if isinstance(data, np.matrix):
        return "numpy.matrix is not taken: pass numpy.asarray(data)"
    if is_masked(data):
        return "a masked array is not taken: pass data.tolist() (masked values become None) with an Optional field"
    if isinstance(data, np.ndarray):
        if data.ndim == 0:
            return "a 0-d array is one value, not rows: pass data.reshape(1)"
        if data.dtype.names is not None:
            return "a structured array is not taken: pass data.tolist(), whose rows are tuples"
        return None
    return _foreign_refusal(data, kind)


def is_cluster_collection(data: Any) -> bool:
    """Return whether `data` lies in parts on a cluster: RDD, data frame, bag, list of Delayed, data set, `RankRows`."""
    if isinstance(data, type):
        return False
    if isinstance(data, (list, tuple)):  # of Delayed
        return bool(data) and all(callable(getattr(one, "__dask_graph__", None)) for one in data)
    marks = ("to_delayed", "mapPartitions", "mapInArrow", "iter_internal_ref_bundles", "rank_parts")
    return any(callable(getattr(data, mark, None)) for mark in marks)


def _foreign_refusal(data: Any, kind: str) -> str | None:
    if isinstance(data, Mapping):
        return f"a mapping of columns ({kind}) is not taken: pass list(zip(*data.values()))"
    if hasattr(data, "itertuples"):
        return f"a {kind} is not taken: pass list(data.itertuples(index=False, name=None))"
    if hasattr(data, "iter_rows"):
        return f"a {kind} is not taken: pass data.rows()"
    if hasattr(data, "to_pylist"):
        return f"a {kind} is not taken: pass data.to_pylist()"
    if is_cluster_collection(data):
        return f"{kind} is a collection of a cluster: pass backend= with the name of its framework"
    if hasattr(data, "to_numpy") and hasattr(data, "dtype"):
        return f"a {kind} is not taken: pass data.{'tolist' if hasattr(data, 'tolist') else 'to_list'}()"
    if isinstance(data, (set, frozenset)):
        return f"a {kind} has no order: pass sorted(data)"
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        what = "can be read only once" if hasattr(data, "__next__") else "is not a sequence of rows"
        return f"a {kind} {what}: pass list(data)"
    return None


def row_count(data: Any) -> int:
    """Return the number of rows of what tells it without being read, else 0."""
    if isinstance(data, type) or hasattr(data, "iter_internal_ref_bundles") or getattr(data, "ndim", 1) == 0:
        return 0
    return len(data) if hasattr(data, "__len__") else 0


def check_rows(data: Any, title: str) -> Any:
    """Return `data` if it is a non-empty indexable sequence of rows.

    Raises
    ------
    TypeError
        For generators, data frames, series, structured and masked arrays, mappings, strings; with the line to type.
    ValueError
        For empty data.
    """
    wrong = _refusal(data)
    if wrong is not None:
        raise TypeError(f"{title}: {wrong}")
    if not len(data):
        raise no_rows(title)
    return data


def choose_encoder(title: str, estimator: Any, model: Any, encoder: Any, *, takes_model: bool = True) -> Any:
    """Return the encoder: the explicit one, else the model's, else the estimator's.

    Raises
    ------
    ValueError
        If none of them is given.
    TypeError
        For what is none of them, and for a class in the place of an instance.
    """
    if encoder is not None:
        check_instance(title, "encoder", encoder, "seq_encode", "model.dist_to_encoder()")
        return encoder
    if model is not None:
        return encoder_of_model(title, model)
    if estimator is None:
        need = "an encoder, model, or estimator" if takes_model else "an estimator or an explicit encoder"
        raise ContractError(f"{title} requires {need}. Pass estimator=, or a model for one: model.estimator()")
    if isinstance(estimator, type):
        check_instance(title, "estimator", estimator, "accumulator_factory", "model.estimator()")
    if hasattr(estimator, "accumulator_factory"):
        return estimator.accumulator_factory().make().acc_to_encoder()
    if hasattr(estimator, "dist_to_encoder"):
        return estimator.dist_to_encoder()
    raise TypeError(f"{title}: {type(estimator).__name__} is not an estimator; pass one, e.g. model.estimator()")


def check_count(value: Any, name: str, *, optional: bool = False) -> int | None:
    """Return `value` as an int ≥ 1 (or None); booleans and fractions are refused.

    Raises
    ------
    TypeError, ValueError
        Naming `name`.
    """
    if value is None and optional:
        return None
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a positive integer, not {value!r}")
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a positive integer, not {value!r}") from None
    if count < 1:
        raise ValueError(f"{name} must be positive.")
    return count


def choose_map(default: ShardMap | None, rows: int, **controls: Any) -> ShardMap | None:
    """Return the one shard map that `controls` ask for, or `default`.

    Parameters
    ----------
    default : ShardMap or None
        What none of them means.
    rows : int
        Number of rows, to check a placement against.
    **controls : Any
        Any of num_shards, num_chunks, placement, resources.

    Raises
    ------
    BackendError
        (a ValueError) if more than one is given, naming them.
    """
    given = [name for name, value in controls.items() if value is not None]
    if len(given) > 1:
        raise BackendError(f"{' and '.join(given)} each say how rows are split: give only one of them")
    if not given or given[0] == "resources":
        return default
    value = controls[given[0]]
    if given[0] == "num_shards":
        return as_shard_map(value)
    if given[0] == "num_chunks":
        return Contiguous(check_count(value, "num_chunks"))
    if not hasattr(value, "shards"):
        raise TypeError(f"placement is {shown(value)}, no Placement; pass plan(data, estimator=...)")
    sizes = tuple(shard.size for shard in value.shards)
    if sum(sizes) != rows:
        raise ValueError(f"placement covers {sum(sizes)} rows, the data has {rows}: plan(data, ...) again")
    return Contiguous(sizes=sizes)


def check_fits(title: str, placement: Any, force: Any) -> None:
    """Refuse a placement that cannot fit the memory of its devices, unless forced.

    Raises
    ------
    BackendError
        (a ValueError) with the placement's own reason.
    TypeError
        If `force` is no boolean.
    """
    if not isinstance(force, (bool, np.bool_)):
        raise TypeError(f"force must be True or False, not {force!r}")
    if placement is not None and placement.fits is False and not force:
        raise BackendError(
            f"{title}: the placement cannot fit: {placement.reason}. Plan for more memory or more devices, or encode "
            "it all the same with encoded_data(..., force=True)"
        )


def check_weights(weights: Any, rows: int) -> np.ndarray | None:
    """Return row weights as a float64 array of shape ``(rows,)``, or None.

    Raises
    ------
    ValueError
        For another length, a negative or non-finite weight (the row is named), or a total of zero.
    """
    if weights is None:
        return None
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"weights must be one number per row, as a list or array of length {rows}: {error}") from error
    if array.shape != (rows,):
        raise ValueError(f"weights must have shape ({rows},), one per row, not {array.shape}")
    bad = ~(np.isfinite(array) & (array >= 0.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"weight of row {row} is {array[row]}: weights must be finite and at least 0")
    if not array.any():
        raise EmptyDataError("all weights are zero: at least one row must count")
    with np.errstate(over="ignore"):
        total = float(array.sum())
    if not math.isfinite(total):
        raise ValueError("the sum of the weights overflows: divide them by their maximum")
    return array


def make_source(
    rows: Any,
    encoder: Any,
    shard_map: ShardMap,
    sub_chunks: int | Sequence[int],
    weights: np.ndarray | None,
    estimator: Any,
) -> Source:
    """Return the source of a transport: `rows` cut by `shard_map`, each shard cut into `sub_chunks`."""
    shards = shard_map.resolve(len(rows))
    counts = [sub_chunks] * len(shards) if isinstance(sub_chunks, int) else list(sub_chunks)
    pieces = tuple(cut(shard, count, shard_map) for shard, count in zip(shards, counts, strict=True))
    return Source(rows, weights, encoder, shards, pieces, estimator)


def check_probability(p: Any, name: str = "p") -> float:
    """Return the probability that a start keeps a row, in (0, 1]; errors call it `name`.

    Raises
    ------
    TypeError
        For a boolean or what is not a number.
    ImpossibleEvidenceError
        (a ValueError) for 0.
    ValueError
        For anything else outside (0, 1].
    """
    if isinstance(p, (bool, np.bool_)) or not isinstance(p, numbers.Real):
        raise TypeError(f"{name} must be a probability in (0, 1], not {p!r}")
    value = float(p)
    if value == 0.0:
        raise ImpossibleEvidenceError(f"{name} = 0 keeps no row: a start needs {name} in (0, 1], e.g. {name}=0.1")
    if not 0.0 < value <= 1.0:
        raise ValueError(f"{name} must be in (0, 1], not {p!r}: it is the share of rows that a start reads")
    return value


def random_state(rng: Any, name: str = "rng") -> Any:
    """Return the RandomState that `rng` is or means.

    Parameters
    ----------
    rng : numpy.random.RandomState, int or numpy.random.Generator
        A RandomState is used (and advanced) as it is.
    name : str
        What the argument is called, in messages.

    Raises
    ------
    TypeError
        For None and anything else.
    ValueError
        For an int that is no seed.
    """
    from numpy.random import Generator, RandomState

    if isinstance(rng, RandomState):
        return rng
    if isinstance(rng, Generator):
        return RandomState(int(rng.integers(2**31)))
    if not isinstance(rng, (bool, np.bool_, np.ndarray)) and hasattr(type(rng), "__index__"):
        number = operator.index(rng)
        if not 0 <= number < 2**32:
            raise ValueError(f"{name} must be an int from 0 to 2**32 - 1, not {shown(number)}: pass e.g. {name}=0")
        return RandomState(number)
    raise TypeError(
        f"{name} must be a numpy.random.RandomState, a Generator or an int, not {shown(rng)}: pass e.g. {name}=0"
    )


def is_masked(data: Any) -> bool:
    """Return whether `data` is a masked array; numpy's module of them is not loaded for the question."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(data, module.MaskedArray)


def check_precision(title: str, precision: Any) -> str:
    """Return "float64" or "float32"; None means float64.

    Raises
    ------
    BackendError
        (a ValueError) for any other precision.
    """
    from mixle.utils.parallel.planning.precision import precision_name

    name = precision_name(precision)
    if name not in {"default", "auto", "float64", "float32"}:
        raise BackendError(
            f"{title}: precision {precision!r} is not supported; use precision='float64' (the default) or 'float32'"
        )
    return "float32" if name == "float32" else "float64"


def check_engine(title: str, engine: Any, precision: Any) -> None:
    """Refuse an engine other than numpy and a precision that `check_precision` refuses.

    Raises
    ------
    BackendError
        (a ValueError) naming what was asked for.
    """
    name = engine if isinstance(engine, str) else getattr(engine, "name", type(engine).__name__)
    if engine is not None and str(name).lower() not in {"numpy", "numpyengine"}:
        raise BackendError(f"{title}: engine {name!r} is not supported; leave engine out, or use engine='numpy'")
    check_precision(title, precision)


def warn_user(message: str) -> None:
    """Issue a UserWarning at the first line outside this package."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - 3.11 has no skip_file_prefixes
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "mixle":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)
