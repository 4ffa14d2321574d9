"""Kernels are thin: what they return is what the model and its estimator return."""

from __future__ import annotations

import numpy as np
import pytest

from bits import bits
from mixle.stats import CompositeDistribution, GaussianDistribution, MixtureDistribution
from models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_a_kernel_scores_and_accumulates_as_the_model_does(name):
    model = MODELS[name]()
    kernel = model.dist.kernel(estimator=model.estimator)
    payload = model.dist.dist_to_encoder().seq_encode(model.rows)
    np.testing.assert_array_equal(kernel.score(payload), model.dist.seq_log_density(payload))
    accumulator = model.estimator.accumulator_factory().make()
    accumulator.seq_update(payload, np.ones(len(model.rows)), model.dist)
    assert bits(kernel.accumulate(payload)) == bits(accumulator.value())
    assert model.dist.get_prior() is None


def test_a_kernel_follows_its_model_and_refuses_other_engines():
    model = MixtureDistribution([GaussianDistribution(0.0, 1.0), GaussianDistribution(4.0, 1.0)])
    kernel = model.components[0].kernel(engine="numpy")
    rows = np.array([0.0, 4.0])
    assert kernel.refresh(model).component_scores(rows).shape == (2, 2)
    with pytest.raises(ValueError, match="engine 'torch' is not supported"):
        model.kernel("torch")
    with pytest.raises(ValueError, match="conjugate priors are not supported"):
        CompositeDistribution(tuple(model.components)).set_prior(model)
