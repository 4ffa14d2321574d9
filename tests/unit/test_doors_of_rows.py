"""Rows, chunks, counts and JSON that are not what they should be: told in words, at once, and alike everywhere."""

import numpy as np
import pytest

import mixle.stats as st
from mixle.errors import ContractError, MixleError, SerializationError
from mixle.inference import seq_estimate, seq_initialize
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.planner import Resources, encoded_data
from models import MODELS

ADVICE = "pass |use |leave |encode again|must be a handle or a list"
GAUSS, NORMAL, ROWS = st.GaussianEstimator(), st.GaussianDistribution(0.0, 1.0), [1.0, 2.0, 4.0, 5.0]
NO_ROWS = {"None": None, "a number": 5, "an object": object(), "infinity": float("inf")}
#: Lists that are no chunks: bare payloads, texts, payloads and counts of nothing.
NO_CHUNKS = {**NO_ROWS, "a text": "abc", "an array": np.zeros(7), "numbers": [1, 2, 3], "negative": [(-1, np.zeros(1))]}


def encoded(name):
    """Return a model of the table and the payload of twenty rows."""
    model = MODELS[name]()
    return model, model.dist.dist_to_encoder().seq_encode(model.rows[:20])


def scoring(model):
    """Return what takes chunks."""
    return (
        lambda chunks: st.seq_log_density(chunks, model.dist),
        lambda chunks: st.seq_log_density_sum(chunks, model.dist),
        lambda chunks: seq_estimate(chunks, model.estimator, model.dist),
        lambda chunks: seq_initialize(chunks, model.estimator, np.random.RandomState(1), 1.0),
    )


@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_are_no_rows_or_no_encoded_rows_is_refused_in_words(name):
    model, _ = encoded(name)
    for nonsense in NO_ROWS.values():
        with pytest.raises(TypeError, match=r"takes a sequence of rows, not .*; pass a list of rows"):
            model.dist.dist_to_encoder().seq_encode(nonsense)
        if name != "null":  # it looks at no row
            with pytest.raises((ContractError, TypeError), match=ADVICE):
                model.dist.seq_log_density(nonsense)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_are_no_chunks_is_refused_in_words(name):
    model, payload = encoded(name)
    for call in scoring(model):
        for nonsense in NO_CHUNKS.values():
            with pytest.raises((TypeError, ValueError), match=ADVICE):
                call(nonsense)
        with pytest.raises(ValueError, match=r"declares 7 rows, its payload has 20|20,\) for 7 rows"):
            call([(7, payload)])
        if not isinstance(payload, tuple) or len(payload):
            with pytest.raises((TypeError, ValueError), match=ADVICE):
                call(payload)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "gamma", "categorical", "composite", "sequence", "optional"])
def test_chunks_of_another_family_are_refused_by_all_that_score(name):
    _, payload = encoded(name)
    for other in ("exponential", "beta", "bernoulli", "diagonal gaussian", "hidden markov", "markov chain", "record"):
        if {name, other} in ({"poisson", "beta"}, {"composite", "record"}, {"categorical", "bernoulli"}):
            continue  # told by their numbers, or of one form
        for call in scoring(MODELS[other]()):
            with pytest.raises((MixleError, TypeError), match=ADVICE):
                call([(20, payload)])


@pytest.mark.parametrize("bad", [None, 5, "a", st.GaussianDistribution, [None]])
def test_what_is_no_model_is_refused_by_name(bad):
    chunks = st.seq_encode(ROWS, model=NORMAL)
    for call in (st.seq_log_density, st.seq_log_density_sum):
        with pytest.raises(TypeError, match="pass "):
            call(chunks, bad)
    with pytest.raises((TypeError, ValueError), match="pass "):
        st.seq_encode(ROWS, bad)
    with pytest.raises(ValueError, match=r"num_chunks must be a positive integer, not .*; pass"):
        st.seq_encode(ROWS, model=NORMAL, num_chunks=bad if bad != 5 else 0)


@pytest.mark.parametrize("huge", [10**9, 10**12, 10**30])
def test_huge_counts_are_clipped_or_refused_at_once(huge):
    with pytest.raises(ValueError, match=r"far more than the 4 rows; pass at most as many"):
        st.seq_encode(ROWS, model=NORMAL, num_chunks=huge)
    assert len(st.seq_encode(ROWS, model=NORMAL, chunk_size=huge)) == 1
    with encoded_data(ROWS, GAUSS, num_shards=huge, chunk_workers=huge) as handle:
        assert handle.pysp_seq_log_density_sum(NORMAL)[0] == 4
    with pytest.raises(ValueError, match=r"more than the 4096 processes of a pool; pass about as many as"):
        encoded_data([1.0] * 5000, GAUSS, backend="mp", num_workers=huge)


def test_more_threads_than_a_machine_starts_are_not_asked_for():
    rows = [1.0] * 600
    with encoded_data(rows, GAUSS, num_shards=600, chunk_workers=10**9) as handle:
        assert handle.pysp_seq_log_density_sum(NORMAL)[0] == 600


DEEP = "[" * 3000 + "]" * 3000


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 3000 + "1" + "}" * 3000, None, 5, "{", "1" * 5000])
@pytest.mark.parametrize("kind", [st.GaussianDistribution, st.MixtureEstimator, Resources])
def test_text_that_is_no_json_of_anything_is_refused(kind, text):
    with pytest.raises(SerializationError, match="pass what to_json returned"):
        kind.from_json(text)


@pytest.mark.parametrize("depth", [900, 3000])
def test_data_nested_too_deep_are_no_model(depth):
    lists, model = [], NORMAL.to_dict()
    for _ in range(depth):
        lists, model = [lists], {**NORMAL.to_dict(), "mu": model}
    for payload in (lists, model):
        with pytest.raises(SerializationError, match="nested too deep to be a model; pass what to_json"):
            st.GaussianDistribution.from_dict(payload)


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("bad", [float("nan"), 10**400, {"array": [1], "shape": [10**12], "dtype": "V9000000000"}])
def test_a_number_that_cannot_be_is_no_damage_to_anything_but_the_document(name, bad):
    law = MODELS[name]().dist
    try:
        document = law.to_dict()
    except SerializationError:
        return  # it holds a function without a name
    for key, value in document.items():
        if isinstance(value, float):
            with pytest.raises(SerializationError, match=r"pass |use another copy"):
                type(law).from_dict({**document, key: bad})


#: Rows that a family does not read, one bad row each, so that it is the same one in every cut.
BAD_ROWS = {
    "two axes": (GAUSS, np.zeros((8, 2))),
    "one column": (st.PoissonEstimator(), np.ones((8, 1))),
    "one axis": (st.MultivariateGaussianEstimator(2), np.zeros(8)),
    "three axes": (st.DirichletEstimator(2), np.zeros((8, 2, 2))),
    "a gap": (GAUSS, [1.0] * 7 + [None]),
    "a text": (st.PoissonEstimator(), [1] * 5 + ["x"] + [1] * 2),
    "another arity": (st.CompositeEstimator((GAUSS, GAUSS)), [(1.0, 2.0)] * 6 + [(1.0,)] + [(1.0, 2.0)]),
    "a bad element": (st.SequenceEstimator(GAUSS), [[1.0], [2.0], [], [1.0, "x"], [1.0], [2.0], [1.0], [1.0]]),
    "no rows": (GAUSS, None),
    "a dict": (GAUSS, {"a": 1}),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_told_alike_on_every_backend(name):
    estimator, rows = BAD_ROWS[name]
    told = set()
    for options in (
        {},
        {"num_shards": 3, "chunk_workers": 2},
        {"num_shards": Strided(2)},
        {"backend": "mp", "num_workers": 2},
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            encoded_data(rows, estimator, **options).close()
        told.add(str(caught.value).removeprefix("MPEncodedData").removeprefix("LocalEncodedData"))
    assert len(told) == 1
