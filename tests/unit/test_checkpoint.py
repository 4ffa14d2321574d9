"""A fit that was broken off and gone on with has the bits of an unbroken one; what it cannot go on from is refused."""

import json
import os
import re

import numpy as np
import pytest
from fit_support import SpyHandle, WaitModel, clusters, counted

from mixle.errors import CheckpointError, SerializationError
from mixle.inference import best_of, optimize
from mixle.inference.checkpoint_file import unpack
from mixle.stats import (
    CategoricalEstimator,
    CompositeEstimator,
    GaussianDistribution,
    GaussianEstimator,
    MixtureDistribution,
    MixtureEstimator,
)
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData
from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData
from traces import NAMES, problem

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped", "ignore:.*supported by no component")

FULL = os.environ.get("MIXLE_IDENTITY") == "full"
ROWS = clusters(240)
EST = MixtureEstimator([GaussianEstimator()] * 3)


class Broken(Exception):
    """What breaks a fit off."""


def breaking(iteration):
    """Return what breaks a fit off after an iteration; nothing does so at the last one."""

    def on_step(step):
        if step.iter == iteration:
            raise Broken

    return on_step


def fit(checkpoint=None, rows=ROWS, estimator=EST, **options):
    return optimize(rows, estimator, checkpoint=checkpoint, **{"max_its": 6, "delta": None, "seed": 3, **options})


def said(model):
    """Return everything a fit says of its model."""
    found = model.fit_provenance()
    return model.digest(), found._replace(n_observations=None)


def broken_off(checkpoint, iteration, **options):
    with pytest.raises(Broken):
        fit(checkpoint, on_step=breaking(iteration), **options)


def facts_in(path):
    return json.loads(unpack(path.read_bytes())[0])


@pytest.mark.identity
@pytest.mark.parametrize("name", NAMES)
def test_every_model_goes_on_with_the_bits_of_an_unbroken_fit(name, tmp_path):
    rows, estimator = problem(name)
    with encoded_data(rows, estimator, num_shards=3) as handle:
        options = {"rows": None, "estimator": estimator, "enc_data": handle, "max_its": 5, "init_p": 0.5}
        whole = fit(**options)
        last = whole.fit_provenance().iterations
        for iteration in sorted({1, min(3, last), last} if FULL else {min(3, last)}):
            path = tmp_path / f"at{iteration}"
            broken_off(path, iteration, **options)
            assert facts_in(path)["round"] == iteration
            assert said(fit(path, **options)) == said(whole)


MODELS = [
    "mixture",
    "mixture of products",
    "hidden markov of unlike families with a terminal state",
    "mixture of gamma",
]
POOLS = {
    "mp": lambda rows, estimator: encoded_data(rows, estimator, backend="mp", num_shards=4, num_workers=2),
    "resilient": lambda rows, est: ResilientMPEncodedData(rows, est, num_shards=4, num_workers=2, max_retries=9),
    "audited": lambda rows, est: AuditedMPEncodedData(rows, est, num_shards=4, num_workers=2, max_retries=9),
}


@pytest.mark.identity
@pytest.mark.parametrize(
    ("pool", "name"),
    [(pool, name) for pool in POOLS for name in MODELS if FULL or pool != "audited" or name == "mixture"],
)
def test_every_pool_goes_on_with_the_bits_of_an_unbroken_fit(pool, name, tmp_path):
    rows, estimator = problem(name)
    options = {"rows": None, "estimator": estimator, "init_p": 0.5}
    with encoded_data(rows, estimator, num_shards=4) as local, POOLS[pool](rows, estimator) as handle:
        whole = fit(enc_data=local, **options)
        last = whole.fit_provenance().iterations
        for iteration in sorted({1, min(3, last), last}):
            path = tmp_path / str(iteration)
            broken_off(path, iteration, enc_data=handle, **options)
            if pool != "mp":
                handle.arm_kill(lambda worker, process: process.kill() if worker == 1 else None)
            assert said(fit(path, enc_data=handle, **options)) == said(whole)
        if pool != "mp":
            assert handle._failures == {1: 2}  # a fit that had ended made no round


def test_another_backend_and_another_number_of_workers_go_on(tmp_path):
    path, whole = tmp_path / "fit", fit(num_shards=5, sub_chunks=2)
    for iteration, more in [(2, {"backend": "mp", "num_workers": 3}), (4, {"backend": "mp", "num_workers": 1})]:
        broken_off(path, iteration, num_shards=5, sub_chunks=2, **more)
    handle = counted(ROWS, EST, shards=5, kind=SpyHandle)
    with pytest.raises(CheckpointError, match="cut otherwise than here"):
        fit(path, None, enc_data=handle)
    assert fit(path, num_shards=5, sub_chunks=2).digest() == whole.digest()


def test_a_handle_that_is_driven_through_the_documented_methods_goes_on(tmp_path):
    path, whole = tmp_path / "fit", fit(num_shards=2)
    broken_off(path, 3, rows=None, enc_data=counted(ROWS, EST, shards=2, kind=SpyHandle))
    assert fit(path, None, enc_data=counted(ROWS, EST, shards=2, kind=SpyHandle)).digest() == whole.digest()


def test_going_on_costs_one_pass_more_than_the_iterations_left(tmp_path):
    path, handle = tmp_path / "fit", counted(ROWS, EST)
    broken_off(path, 4, rows=None, enc_data=handle)
    handle.transport.tasks.clear()
    fit(path, None, enc_data=handle)
    assert handle.transport.tasks == ["Apply", "Accumulate", "Accumulate", "Score"]
    handle.transport.tasks.clear()
    fit(path, None, enc_data=handle)  # it has ended
    assert handle.transport.tasks == ["Apply"]


def test_the_best_model_validation_and_a_start_drawn_again_survive(tmp_path):
    rows = [("ab"[i % 2], float(x)) for i, x in enumerate(ROWS)] + [("rare", 40.0)]
    estimator = MixtureEstimator([CompositeEstimator((CategoricalEstimator(), GaussianEstimator()))] * 3)
    options = {"rows": rows, "estimator": estimator, "init_p": 0.02, "vdata": rows[::7], "max_its": 8}
    whole = fit(**options)
    assert any("drawn again" in note for note in whole.fit_provenance().repairs)
    scores = []
    fit(**options, track_best=False, on_step=lambda step: scores.append(step.log_density))
    for iteration in range(1, 9):
        path = tmp_path / str(iteration)
        broken_off(path, iteration, **options)
        assert said(fit(path, **options)) == said(whole)
    with pytest.raises(CheckpointError, match="its validation data are others"):
        fit(path, **{**options, "vdata": rows[::6]})
    with pytest.raises(CheckpointError, match="its validation data are others"):
        fit(path, **{**options, "vdata": None})


def test_repairs_survive(tmp_path):
    rows, estimator = problem("hidden markov of unlike families with a terminal state")
    options = {"rows": rows, "estimator": estimator, "init_p": 0.5}
    whole = fit(**options)
    assert whole.numerical_repairs()
    broken_off(tmp_path / "fit", 6, **options)
    again = fit(tmp_path / "fit", **options)
    assert (again.numerical_repairs(), said(again)) == (whole.numerical_repairs(), said(whole))


def test_a_finished_fit_is_returned_and_goes_on_when_the_cap_is_raised(tmp_path):
    path = tmp_path / "fit"
    with pytest.warns(UserWarning, match="before convergence"):
        first = fit(path, max_its=4, delta=1e-9)
    steps = []
    with pytest.warns(UserWarning, match="before convergence"):
        assert said(fit(path, max_its=4, delta=1e-9, on_step=steps.append)) == said(first)
    assert steps == []
    longer = fit(path, max_its=400, delta=1e-9, on_step=steps.append)
    assert steps[0].iter == 5
    assert longer.fit_provenance().converged
    assert said(longer) == said(fit(max_its=400, delta=1e-9))
    assert said(fit(path, max_its=500, delta=1e-9))[0] == longer.digest()
    with pytest.raises(CheckpointError, match=r"has run .* iterations; pass max_its="):
        fit(path, max_its=3, delta=1e-9)


def test_a_fit_that_ran_out_of_time_goes_on(tmp_path):
    path = tmp_path / "fit"
    model = fit(path, max_seconds=1e-9)
    assert model.fit_provenance().stopped == "max_seconds"
    assert said(fit(path)) == said(fit())


def test_an_interrupt_leaves_a_checkpoint(tmp_path):
    def interrupt(step):
        if step.iter == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        fit(tmp_path / "fit", on_step=interrupt)
    assert said(fit(tmp_path / "fit")) == said(fit())


def test_the_callers_generator_goes_on_as_after_the_start(tmp_path):
    one, other = np.random.RandomState(5), np.random.RandomState(5)
    fit(seed=None, rng=one)
    broken_off(tmp_path / "fit", 2, seed=None, rng=np.random.RandomState(5))
    fit(tmp_path / "fit", seed=None, rng=other)
    assert one.randint(2**31) == other.randint(2**31)


def test_a_start_that_was_given_is_part_of_the_fit(tmp_path):
    start = MixtureDistribution([GaussianDistribution(float(mu), 1.0) for mu in range(3)], [0.2, 0.3, 0.5])
    broken_off(tmp_path / "fit", 2, prev_estimate=start)
    assert said(fit(tmp_path / "fit", prev_estimate=start)) == said(fit(prev_estimate=start))
    other = MixtureDistribution(start.components, [0.5, 0.3, 0.2])
    with pytest.raises(CheckpointError, match="prev_estimate is another model"):
        fit(tmp_path / "fit", prev_estimate=other)
    with pytest.raises(CheckpointError, match="was given, this call gives no prev_estimate"):
        fit(tmp_path / "fit")


OTHER = {
    "rows": ({"rows": ROWS[:-1]}, "its data have 240 rows, those of this call 239"),
    "a row": ({"rows": np.append(ROWS[:-1], 7.0)}, r"its data are other rows or weights, in 1 of 4 shards: \[3\]"),
    "weights": ({"weights": np.full(240, 2.0)}, "in 4 of 4 shards"),
    "shards": ({"num_shards": 5}, "its rows were cut into 4 shards, here into 5"),
    "map": ({"num_shards": Contiguous(4)}, "its rows were cut otherwise than here"),
    "sub-chunks": ({"sub_chunks": 2}, "cut otherwise than here"),
    "components": ({"estimator": MixtureEstimator([GaussianEstimator()] * 2)}, "it fits MixtureEstimator.*this call"),
    "settings": ({"estimator": MixtureEstimator([GaussianEstimator()] * 3, w_min=0.01)}, "it fits MixtureEstimator"),
    "seed": ({"seed": 4}, "its seed or rng is another"),
    "init_p": ({"init_p": 0.2}, "its init_p is another"),
    "init_estimator": ({"init_estimator": MixtureEstimator([GaussianEstimator()] * 4)}, "init_estimator is another"),
    "objective": ({"objective": "map"}, "its objective is 'mle', that of this call 'map'"),
    "delta": ({"delta": 1e-3}, "its delta is None, that of this call 0.001"),
    "monotone": ({"monotone": False}, "its monotone is True"),
    "track_best": ({"track_best": False}, "its track_best is True"),
}


@pytest.mark.parametrize("what", OTHER)
def test_the_checkpoint_of_another_fit_is_refused_with_the_difference(what, tmp_path):
    path = tmp_path / "fit"
    broken_off(path, 2, num_shards=4)
    before = path.read_bytes()
    change, message = OTHER[what]
    with pytest.raises(CheckpointError, match=f"is the checkpoint of another fit: .*{message}"):
        fit(path, **{"num_shards": 4, **change})
    assert path.read_bytes() == before


def test_without_resume_what_exists_is_neither_used_nor_lost(tmp_path):
    path = tmp_path / "fit"
    whole = fit(path, resume=False)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="resume=False would lose it"):
        fit(path, resume=False)
    path.unlink()
    with pytest.raises(CheckpointError, match="resume=False would lose it"):  # the one before is there
        fit(path, resume=False)
    (tmp_path / "fit.previous").unlink()
    fit(path, resume=False)
    assert facts_in(path) == json.loads(unpack(before)[0])
    assert said(fit(path)) == said(whole)


class Stranger:
    """A handle of somebody else: the four documented methods and nothing more."""

    def __init__(self, handle):
        self._handle = handle

    def __getattr__(self, name):
        if name.startswith("pysp_") or name == "close":
            return getattr(self._handle, name)
        raise AttributeError(name)


class WaitEstimator:
    """A family without JSON."""

    def accumulator_factory(self):
        return self

    def make(self):
        return WaitAccumulator()

    def estimate(self, nobs, value):
        return WaitModel(nobs / value)


class WaitAccumulator:
    def __init__(self):
        self.total = 0.0

    def acc_to_encoder(self):
        return GaussianEstimator().accumulator_factory().make().acc_to_encoder()

    def seq_update(self, enc, weights, model):
        self.total += float(enc @ weights)

    def seq_initialize(self, enc, weights, rng):
        self.seq_update(enc, weights, None)

    def value(self):
        return self.total

    def combine(self, value):
        self.total += value
        return self

    def key_merge(self, stats):
        pass

    def key_replace(self, stats):
        pass


def test_what_has_no_digest_or_no_json_is_refused_before_the_first_round(tmp_path):
    path, rounds = tmp_path / "fit", []
    with pytest.raises(CheckpointError, match="needs a digest of the data, and a Stranger has none"):
        fit(path, None, enc_data=Stranger(counted(ROWS, EST)), on_step=rounds.append)
    with pytest.raises(CheckpointError, match="needs a digest of the validation data, and a Stranger"):
        fit(path, enc_vdata=Stranger(counted(ROWS, EST)), on_step=rounds.append)
    odd = [frozenset("ab"), frozenset("c")] * 5
    with pytest.raises(CheckpointError, match=r"a value of type builtins.frozenset has no digest"):
        fit(path, odd, CategoricalEstimator(), on_step=rounds.append)
    with pytest.raises(SerializationError, match="needs a model that JSON can hold, and WaitModel is none"):
        fit(path, np.abs(ROWS), WaitEstimator(), on_step=rounds.append)
    assert (rounds, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".", "is a folder"),
        ("", "is a folder"),
        ("missing/fit", "there is no folder .*missing; make it first"),
        ("/dev/full", "is no regular file"),
        ("a\0b", "cannot be reached: .*null"),
        ("n" * 300, "cannot be reached: .*name too long"),
    ],
)
def test_paths_that_can_be_no_checkpoint_are_refused_before_any_work(path, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        optimize(iter([]), EST, checkpoint=path)
    for wrong in (3, b"fit", True):
        with pytest.raises(TypeError, match="checkpoint is the path of a file"):
            optimize(iter([]), EST, checkpoint=wrong)
    with pytest.raises(TypeError, match="resume must be True or False"):
        optimize(iter([]), EST, checkpoint="fit", resume="yes")


def test_a_checkpoint_is_private_and_nothing_else_is_left(tmp_path):
    fit(tmp_path / "fit")
    assert {path.name for path in tmp_path.iterdir()} == {"fit", "fit.previous"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    fit(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere").exists()


def test_a_checkpoint_tells_the_history(tmp_path):
    steps = []
    fit(tmp_path / "fit", on_step=steps.append)
    found = facts_in(tmp_path / "fit")
    assert [step[:2] for step in found["history"]] == [[step.log_density, step.delta] for step in steps]
    assert (found["round"], found["stopped"]) == (6, "max_its")
    assert b"pickle" not in (tmp_path / "fit").read_bytes()


@pytest.mark.parametrize("wrong", [{0}, {0, 1}, {3}])
def test_objectives_that_are_no_numbers(wrong, tmp_path):
    """A start without a finite score is stepped from, a later one ends the fit; so they do after going on."""
    start = MixtureDistribution([GaussianDistribution(float(mu), 1.0) for mu in range(3)], [0.2, 0.3, 0.5])
    models = [start.digest()]
    fit(prev_estimate=start, on_step=lambda step: models.append(step.model.digest()))

    class Blind(Handle):
        def pysp_seq_log_density_sum(self, estimate):
            count, total = super().pysp_seq_log_density_sum(estimate)
            return count, float("nan") if models.index(estimate.digest()) in wrong else total

    def run(checkpoint=None, **options):
        handle = counted(ROWS, EST, kind=Blind)
        try:
            return said(fit(checkpoint, None, enc_data=handle, prev_estimate=start, **options))
        except ValueError as error:
            return str(error)

    whole = run()
    for iteration in (1, 2):
        path = tmp_path / str(iteration)
        if wrong == {0, 1}:
            assert "did not produce a finite objective" in run(path)
        else:
            with pytest.raises(Broken):
                run(path, on_step=breaking(iteration))
        assert run(path) == whole


def test_two_fits_of_one_path_never_mix(tmp_path):
    """The second takes over; the first says so and goes on without a checkpoint."""
    path = tmp_path / "fit"

    def second(step):
        if step.iter == 2:
            fit(path, max_its=4)

    with pytest.warns(UserWarning, match="another fit writes there.*goes on without it") as told:
        model = fit(path, on_step=second)
    assert len(told) == 1
    assert said(model) == said(fit())
    assert facts_in(path)["round"] == 4
    assert said(fit(path)) == said(fit())


def test_two_fits_that_begin_at_once_on_one_path(tmp_path):
    path = tmp_path / "fit"

    class Late(Handle):
        """Rows of a fit that finds no file, and draws its start when another one has written its own."""

        def pysp_seq_initialize(self, estimator, rng, p):
            fit(path, rows=ROWS[:100], max_its=2)
            return super().pysp_seq_initialize(estimator, rng, p)

    with pytest.warns(UserWarning, match="another fit writes there"):
        model = fit(path, None, enc_data=counted(ROWS, EST, kind=Late))
    assert said(model)[0] == fit().digest()
    assert facts_in(path)["facts"]["rows"] == 100


def test_best_of_goes_on_with_the_trial_that_was_broken_off(tmp_path):
    def trials(checkpoint=None, steps=None):
        class Count(Handle):
            def estep(self, estimator, model):
                if steps is not None and next(steps) == 0:
                    raise Broken
                return super().estep(estimator, model)

        handle = counted(ROWS, EST, kind=Count)
        return best_of(None, None, EST, 3, 5, 0.1, None, enc_data=handle, checkpoint=checkpoint)

    score, model = trials()
    for left in (0, 3, 8, 14):
        path = tmp_path / str(left)
        with pytest.raises(Broken):
            trials(path, iter(range(left, -1, -1)))
        assert [found.hex() if isinstance(found, float) else said(found) for found in trials(path)] == [
            score.hex(),
            said(model),
        ]
        assert {file.name for file in tmp_path.glob(f"{left}.*[0-9]")} == {f"{left}.trial{k}" for k in (1, 2, 3)}
    with pytest.raises(CheckpointError, match="resume=False"):
        best_of(ROWS, None, EST, 3, 5, 0.1, None, checkpoint=path, resume=False)


def test_another_build_and_another_score_are_told(tmp_path, monkeypatch):
    path = tmp_path / "fit"
    broken_off(path, 2)
    monkeypatch.setattr("mixle.inference.facts.build_key", lambda: "numpy of tomorrow")
    with pytest.warns(UserWarning, match="was written with numpy .*, this process has numpy of tomorrow"):
        fit(path)
    monkeypatch.undo()
    path.unlink()
    (tmp_path / "fit.previous").unlink()
    broken_off(path, 2)

    class Other(Handle):
        def estep(self, estimator, model):
            found = super().estep(estimator, model)
            return found._replace(log_density=np.nextafter(found.log_density, 0.0))

    with pytest.warns(UserWarning, match="scores .* here and scored .* there"):
        fit(path, None, enc_data=counted(ROWS, EST, kind=Other))


def test_a_path_of_another_users_is_told(tmp_path):
    """The fit goes on where it may not write, and does not begin where it may not read what is there."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    path = tmp_path / "fit"
    fit(path)
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.stat().st_mode & 0o5 != 0o5:
            folder.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(CheckpointError, match=r"cannot be read .Permission denied"):
            fit(path)
        with pytest.warns(
            UserWarning, match="could not be written at iteration 0: Permission denied; the fit goes"
        ) as told:
            model = fit(tmp_path / "mine")
    finally:
        os.seteuid(0)
    assert len(told) == 1
    assert said(model) == said(fit())


def test_errors_name_the_file_that_was_read(tmp_path):
    path = tmp_path / "fit"
    broken_off(path, 2)
    path.unlink()
    with pytest.raises(CheckpointError, match=re.escape(f"{path}.previous is the checkpoint of another fit")):
        fit(path, seed=9)
    assert said(fit(path)) == said(fit())
