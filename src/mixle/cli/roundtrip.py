"""A tiny fit on one backend, in a process of its own: ``python -m mixle.cli.roundtrip BACKEND`` prints its digest."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["MARK", "WHOLE", "fit", "main"]

#: Backends that split the model, not the rows.
WHOLE = frozenset({"component_parallel", "model_parallel", "mp_model"})
#: Opens the line that holds the digest; engines print lines of their own.
MARK = "mixle-round-trip "


def fit(backend: str, shards: int | None = None, **options: Any) -> str:
    """Return the digest of a fit of two components to 60 rows.

    Parameters
    ----------
    backend : str
        Name of the backend.
    shards : int, optional
        Number of shards; three by default, or the one that a backend which splits the model has.
    **options : Any
        Further controls of `encoded_data`.
    """
    from mixle.inference import optimize
    from mixle.stats import CategoricalEstimator, CompositeEstimator, GaussianEstimator, MixtureEstimator
    from mixle.utils.parallel.folding.shards import Contiguous
    from mixle.utils.parallel.planner import encoded_data

    rows = [(0.25 * (i % 7) + (i % 2) * 8.0, "abc"[i % 3]) for i in range(60)]
    estimator = MixtureEstimator([CompositeEstimator((GaussianEstimator(), CategoricalEstimator()))] * 2)
    if shards is None:
        shards = 1 if backend in WHOLE else 3
    if backend not in WHOLE:
        options["num_shards"] = Contiguous(shards)
    with encoded_data(rows, estimator, backend=backend, **options) as handle:
        model = optimize(None, estimator, enc_data=handle, max_its=3, delta=None, seed=1)
    return str(model.digest())


def main(words: list[str]) -> int:
    """Fit on the backend that the first word names and print the digest; on one rank only."""
    backend = words[0]
    options: dict[str, Any] = {}
    if backend == "futures":
        from concurrent.futures import ProcessPoolExecutor
        from functools import partial

        options["client"] = partial(ProcessPoolExecutor, 2)
    digest = fit(backend, **options)
    if backend == "mpi":
        from mixle.utils.parallel.mpi import mpi_out

        mpi_out().write(f"{MARK}{digest}\n")
    else:
        print(f"{MARK}{digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
