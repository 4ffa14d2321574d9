"""The backends that a test runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixle.testing.fault import check_word

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mixle.utils.parallel.folding.protocol import EncodedDataHandle

__all__ = ["DEFAULT", "BackendFactory", "backends_of"]

DEFAULT = ("local", "threads", "mp")
SHARDS, WORKERS = 4, 2
#: Other names of a backend, and those that cut the model instead of the rows, so that they have no shards.
_LEFT_OUT = frozenset({"multiprocessing", "model_parallel", "component_parallel", "mp_model"})
_warm: set[str] = set()


def backends_of(option: str | None) -> list[str]:
    """Return the names in the value of ``--mixle-backends``.

    Parameters
    ----------
    option : str or None
        Names with commas between; None is the default, "all" whatever is registered, has what it needs, and cuts rows
        into shards.

    Raises
    ------
    ValueError
        For an unknown name; the nearest is suggested.

    Examples
    --------
    >>> backends_of("mp, local")
    ['mp', 'local']
    """
    from mixle.utils.parallel.folding.registry import available_encoded_data_backends

    known = dict.fromkeys([*DEFAULT, *available_encoded_data_backends()])
    if option is None:
        return list(DEFAULT)
    if option.strip() == "all":
        return [name for name in known if name not in _LEFT_OUT and _installed(name)]
    names = [name.strip().lower() for name in option.split(",") if name.strip()]
    if not names:
        raise ValueError("no backend is named; write for example --mixle-backends=local,mp")
    return [check_word(name, known, "backend") for name in dict.fromkeys(names)]


def _installed(name: str) -> bool:
    from importlib.util import find_spec

    from mixle.utils.parallel.folding.backends import NEEDS

    return name not in NEEDS or find_spec(NEEDS[name].module) is not None


class BackendFactory:
    """Makes handles of one backend and closes them.

    Parameters
    ----------
    name : str
        "threads" is the local backend on two threads; others are names of `encoded_data`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.handles: list[EncodedDataHandle] = []

    def __call__(self, rows: Any, estimator: Any, **options: Any) -> EncodedDataHandle:
        """Encode rows; the options are those of `encoded_data`.

        Parameters
        ----------
        rows : sequence or ndarray
            Rows.
        estimator : ParameterEstimator
            What they are encoded for.
        **options : Any
            Four shards unless one of ``num_shards``, ``num_chunks``, ``placement``, ``resources`` is given; two
            workers of a process pool or of Ray unless ``num_workers`` is, two processes of an executor unless
            ``client`` is.
        """
        from mixle.utils.parallel.folding.registry import encoded_data

        if not {"num_shards", "num_chunks", "placement", "resources"} & options.keys():
            options["num_shards"] = SHARDS
        if self.name == "threads":
            options.setdefault("chunk_workers", WORKERS)
        elif self.name in {"mp", "multiprocessing", "ray"}:
            options.setdefault("num_workers", WORKERS)
        elif self.name == "futures":
            options.setdefault("client", _executor)
        handle = encoded_data(rows, estimator, backend="local" if self.name == "threads" else self.name, **options)
        self.handles.append(handle)
        return handle

    def warm(self) -> None:
        """Let an engine make what it then keeps until this process ends.

        MPI's shared memory, Dask's threads, Spark's Java and the tracker of an executor are such things; they are no
        leaks of a test.
        """
        if self.name in _warm or self.name in DEFAULT:
            return
        from mixle.stats import GaussianEstimator

        self([0.0, 1.0, 2.0, 3.0], GaussianEstimator()).pysp_seq_estimate(GaussianEstimator(), None)
        self.close()
        _warm.add(self.name)

    def close(self) -> None:
        """Close all handles."""
        while self.handles:
            close = getattr(self.handles.pop(), "close", None)
            if close is not None:
                close()

    def __repr__(self) -> str:
        return f"<backend {self.name}>"


def _executor() -> Executor:
    """Return a process pool."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"))
