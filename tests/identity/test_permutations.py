"""A mixture whose components stand in another order is the same mixture, fitted the same way."""

import numpy as np
import pytest

import mixle.stats as st
from mixle.inference import optimize
from models import MODELS


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(MODELS))
def test_permuting_components_permutes_the_fit(name):
    model = MODELS[name]()
    other = optimize(model.rows[: len(model.rows) // 2], model.estimator, max_its=1, delta=None, seed=3, out=None)
    estimator = st.MixtureEstimator([model.estimator] * 2)
    starts = (([model.dist, other], [0.6, 0.4]), ([other, model.dist], [0.4, 0.6]))
    fits = [
        optimize(model.rows, estimator, prev_estimate=st.MixtureDistribution(*start), max_its=2, delta=None, out=None)
        for start in starts
    ]
    payload = fits[0].dist_to_encoder().seq_encode(model.rows)
    one, two = (fit.seq_log_density(payload) for fit in fits)
    np.testing.assert_allclose(two, one, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fits[1].w[::-1], fits[0].w, rtol=0.0, atol=1e-12)
