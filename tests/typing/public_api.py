"""What type checkers make of the public names; checked by mypy, never run.

A user's editor sees what stands here: if one of these types gets lost (becomes ``Any``) or changes, mypy says so.
"""

from typing import Any, assert_type

import numpy as np

import mixle.sklearn
import mixle.tables
from mixle.errors import ConvergenceWarning, MixleError, RepairWarning
from mixle.inference import (
    Bootstrap,
    FitProvenance,
    Inferred,
    Selection,
    aic,
    best_of,
    bic,
    bootstrap,
    icl,
    infer,
    score,
    select,
)
from mixle.stats import GaussianDistribution, GaussianEstimator, MixtureDistribution, MixtureEstimator
from mixle.tables import Fit, Schema, Summary, summary
from mixle.utils.parallel.planner import EncodedDataHandle, encoded_data

ROWS = [1.0, 2.0, 3.0]
law = GaussianDistribution(0.0, 1.0)
mixture = MixtureDistribution([law, law], [0.5, 0.5])

assert_type(law.log_density(1.0), float)
assert_type(law.to_json(), str)
assert_type(law.digest(), str)
assert_type(mixture.seq_posterior(law.dist_to_encoder().seq_encode(ROWS)), np.ndarray)
assert_type(mixture.log_density(1.0), float)

assert_type(infer(ROWS), Inferred)
assert_type(select(ROWS), Selection)
assert_type(bootstrap(GaussianEstimator(), ROWS), Bootstrap)
assert_type(bootstrap(GaussianEstimator(), ROWS).interval("mu"), tuple[float, float])
assert_type(best_of(ROWS, None, MixtureEstimator([GaussianEstimator()] * 2), 1, 1, 0.5, 1e-9), tuple[float, Any])
assert_type(score(law, ROWS), float)
assert_type(aic(law, ROWS) + bic(law, ROWS) + icl(mixture, ROWS), float)

assert_type(mixle.tables.fit({"x": ROWS}), Fit)
assert_type(mixle.tables.schema({"x": ROWS}), Schema)
assert_type(mixle.tables.schema({"x": ROWS}).replace(x="Gamma"), Schema)
assert_type(mixle.tables.load("fit.json"), Fit)
assert_type(summary(mixture), Summary)
assert_type(mixle.tables.fit({"x": ROWS}).predict({"x": ROWS}), np.ndarray)
assert_type(mixle.tables.fit({"x": ROWS}).bic, float)

assert_type(encoded_data(ROWS, GaussianEstimator()), EncodedDataHandle)

model = mixle.sklearn.MixtureModel(2)
assert_type(model.fit(ROWS), mixle.sklearn.MixtureModel)
assert_type(model.partial_fit(ROWS), mixle.sklearn.MixtureModel)
assert_type(model.predict(ROWS), np.ndarray)
assert_type(model.score(ROWS), float)
chain = mixle.sklearn.HiddenMarkovModel(2)
assert_type(chain.fit(ROWS, lengths=[3]), mixle.sklearn.HiddenMarkovModel)
assert_type(chain.decode(ROWS), tuple[float, Any])


def told(provenance: FitProvenance) -> None:
    """Fields of the record of a fit."""
    assert_type(provenance.converged, bool)
    assert_type(provenance.objectives, tuple[float, ...])
    assert_type(provenance.inferred, str)


def caught() -> str:
    """Errors are exceptions, and warnings categories, that a type checker knows."""
    try:
        score(law, ROWS)
    except MixleError as error:
        return str(error)
    return f"{ConvergenceWarning.__name__} {RepairWarning.__name__}"


# What is wrong must be found: mypy warns of an ignore that is not needed.
GaussianDistribution("zero", 1.0)  # type: ignore[arg-type]
law.log_densities(1.0)  # type: ignore[attr-defined]
select(ROWS, criterion=3)  # type: ignore[arg-type]
bootstrap(GaussianEstimator(), ROWS, B="many")  # type: ignore[arg-type]
mixle.tables.fit({"x": ROWS}, components="two")  # type: ignore[arg-type]
