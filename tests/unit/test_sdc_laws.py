"""Laws of every model's statistic: what an audit and a guarded fold may never trip over."""

import pickle

import numpy as np
import pytest
from tests.models import MODELS

from mixle.utils.parallel.policies.canonical import canonical_sha256
from mixle.utils.parallel.policies.compare import compare
from mixle.utils.parallel.policies.plainpickle import read_plain_pickle
from mixle.utils.parallel.sdc_audit import finite_guarded_fold, inject_bit_flip

WITHIN = "within declared numeric envelope"


def statistic(model, rows, weights):
    accumulator = model.estimator.accumulator_factory().make()
    encoded = accumulator.acc_to_encoder().seq_encode(rows)
    accumulator.seq_update(encoded, np.asarray(weights, float), model.dist if model.latent else None)
    return accumulator.value()


def kinds(model):
    """Return statistics of nobody, of rows without weight, and of rows."""
    rows = model.rows[:60]
    return {
        "nothing": (0.0, model.estimator.accumulator_factory().make().value()),
        "no weight": (0.0, statistic(model, rows, np.zeros(len(rows)))),
        "rows": (float(len(rows)), statistic(model, rows, np.ones(len(rows)))),
    }


@pytest.mark.parametrize("name", MODELS)
def test_a_statistic_equals_itself_empty_or_not(name):
    for kind, payload in kinds(MODELS[name]()).items():
        again = pickle.loads(pickle.dumps(payload))
        assert compare(payload, again, 0.0, 0.0).reason == WITHIN, kind
        assert canonical_sha256(payload) == canonical_sha256(again), kind


@pytest.mark.parametrize("name", MODELS)
def test_empty_statistics_pass_the_guard_in_any_order(name):
    model = MODELS[name]()
    payloads = {kind: pickle.dumps(payload) for kind, payload in kinds(model).items()}
    for order in (["nothing"], ["no weight", "nothing"], ["no weight", "rows", "nothing"], ["rows", "no weight"]):
        count, value = finite_guarded_fold(model.estimator, [payloads[kind] for kind in order])
        assert count == (60.0 if "rows" in order else 0.0)
        assert compare(value, value, 0.0, 0.0).reason == WITHIN


@pytest.mark.parametrize("name", MODELS)
def test_a_statistic_can_be_read_back_where_it_was_altered(name):
    for payload in kinds(MODELS[name]()).values():
        for protocol in (2, 4, 5):
            read = read_plain_pickle(pickle.dumps(payload, protocol))
            assert canonical_sha256(read) == canonical_sha256(payload)


@pytest.mark.parametrize("name", MODELS)
def test_a_flipped_bit_cannot_be_read_or_changes_the_digest_or_no_number(name):
    payload = kinds(MODELS[name]())["rows"]
    data = pickle.dumps(payload)
    clean = canonical_sha256(payload)
    rng = np.random.RandomState(5)
    noticed = 0
    for bit in rng.randint(len(data) * 8, size=60).tolist():
        try:
            read = read_plain_pickle(inject_bit_flip(data, bit))
        except Exception:  # noqa: BLE001 - told as a decode failure
            noticed += 1
            continue
        noticed += canonical_sha256(read) != clean
        assert canonical_sha256(read) != clean or compare(read, payload, 0.0, 0.0).match
    assert noticed >= 30


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name]().latent])
def test_a_component_that_wins_no_row_is_no_fault(name):
    model = MODELS[name]()
    rows = model.rows[:1]
    payload = (1.0, statistic(model, rows, [1.0]))
    assert compare(payload, pickle.loads(pickle.dumps(payload)), 0.0, 0.0).reason == WITHIN
    assert finite_guarded_fold(model.estimator, [pickle.dumps(payload)])[0] == 1.0
