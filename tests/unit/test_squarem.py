"""SQUAREM: never behind EM at equal E-steps, ahead where EM is slow, the same bits everywhere."""

import numpy as np
import pytest

import mixle.stats as st
from mixle.inference import optimize
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.planner import encoded_data
from models import MODELS

LATENT = sorted(name for name in MODELS if MODELS[name]().latent)
QUIET = pytest.mark.filterwarnings("ignore:EM stopped")
R = np.random.RandomState(0)
SLOW = {
    "poisson": (np.concatenate([R.poisson(3, 300), R.poisson(5, 300)]), [st.PoissonEstimator()] * 2),
    "vectors": (
        np.concatenate([R.multivariate_normal(m, np.eye(2), 250) for m in ([0.0, 0.0], [1.5, 1.0])]),
        [st.MultivariateGaussianEstimator()] * 2,
    ),
}


class Counting:
    """Counts E-steps and remembers the objective reached after each."""

    def __init__(self, monkeypatch):
        self.passes, self.curve = 0, []
        original = Handle.estep

        def estep(handle, estimator, model):
            self.passes += 1
            return original(handle, estimator, model)

        monkeypatch.setattr(Handle, "estep", estep)

    def step(self, step):
        self.curve.append((self.passes, step.log_density))

    def best_at(self):
        """Return the best objective known after each number of E-steps."""
        best, result = -np.inf, {}
        for passes, value in self.curve:
            best = max(best, value)
            result[passes] = best
        return result


@pytest.mark.parametrize("name", LATENT)
def test_at_equal_e_steps_it_is_never_behind(name, monkeypatch):
    model = MODELS[name]()
    options = {"max_its": 24, "delta": None, "seed": 1, "init_p": 1.0}
    reached = []
    for strategy in ("em", "squarem"):
        count = Counting(monkeypatch)
        fitted = optimize(model.rows, model.estimator, strategy=strategy, on_step=count.step, **options)
        reached.append(count.best_at())
    plain, fast = reached
    assert fitted.fit_provenance().algorithm == "squarem"
    for passes, value in plain.items():
        known = [v for p, v in fast.items() if p <= passes]
        if known:
            assert max(known) >= value - 1e-9 * abs(value)
    gains = np.diff([value for _, value in count.curve])
    assert (gains >= -1e-9 * abs(count.curve[-1][1])).all()


@pytest.mark.parametrize("name", SLOW)
def test_where_em_is_slow_it_is_several_times_faster(name):
    rows, estimators = SLOW[name]
    fits = [
        optimize(rows, st.MixtureEstimator(estimators), max_its=3000, delta=1e-7, seed=1, init_p=1.0, strategy=strategy)
        for strategy in (None, "squarem")
    ]
    plain, fast = (fit.fit_provenance() for fit in fits)
    assert plain.converged
    assert fast.converged
    assert fast.iterations * 3 < plain.iterations
    assert fast.final_objective >= plain.final_objective - 1e-4
    assert any("extrapolations were taken back" in note for note in fast.repairs)


@QUIET
def test_every_transport_gives_its_bits():
    rows, estimators = SLOW["vectors"]
    estimator = st.MixtureEstimator(estimators)
    digests = set()
    for backend, options in (("local", {}), ("local", {"parallel_chunks": True}), ("mp", {"num_workers": 2})):
        with encoded_data(rows, estimator, backend=backend, num_shards=5, **options) as handle:
            fit = optimize(
                None, estimator, enc_data=handle, max_its=40, delta=1e-9, seed=2, strategy="squarem", init_p=1.0
            )
            digests.add(fit.digest())
    assert len(digests) == 1


def test_it_serves_map_fits():
    rows, _ = SLOW["poisson"]
    part = st.PoissonEstimator(prior=st.GammaDistribution(2.0, 2.0))
    estimator = st.MixtureEstimator([part] * 2, prior=st.SymmetricDirichletDistribution(5.0))
    options = {"max_its": 3000, "delta": 1e-8, "seed": 1, "init_p": 1.0}
    plain, fast = (optimize(rows, estimator, strategy=s, **options).fit_provenance() for s in (None, "squarem"))
    assert fast.objective == "map"
    assert fast.iterations < plain.iterations
    assert fast.final_objective >= plain.final_objective - 1e-5


def test_what_it_cannot_serve_is_refused():
    with pytest.raises(ValueError, match="strategy must be one of"):
        optimize([1.0, 2.0], st.GaussianEstimator(), strategy="newton")
    with pytest.raises(ValueError, match="a checkpoint does not hold"):
        optimize([1.0, 2.0], st.GaussianEstimator(), strategy="squarem", checkpoint="fit.json")
    with pytest.raises(ValueError, match="leave reuse_estep_ll out"):
        optimize([1.0, 2.0], st.GaussianEstimator(), strategy="squarem", reuse_estep_ll=False)


def test_tol_stops_relative_to_the_objective():
    rows, estimators = SLOW["poisson"]
    estimator = st.MixtureEstimator(estimators)
    gains = []
    fit = optimize(
        rows, estimator, max_its=500, delta=None, tol=1e-6, seed=1, init_p=1.0,
        on_step=lambda s: gains.append(s.delta / abs(s.log_density)),
    )  # fmt: skip
    assert fit.fit_provenance().converged
    assert gains[-1] < 1e-6
    assert min(gains[:-1]) >= 1e-6
    with pytest.warns(UserWarning, match="tol is 1e-12; raise max_its or tol"):
        optimize(rows, estimator, max_its=2, delta=None, tol=1e-12, seed=1)
    with pytest.raises(ValueError, match="tol must be"):
        optimize(rows, estimator, tol=0)
