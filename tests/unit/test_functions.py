"""Functions over rows and over encoded rows."""

import collections
import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest

import mixle.stats as st
from mixle.errors import RowError

ROWS = [0, 1, 2, 3, 4, 5, 6]
MODEL = st.PoissonDistribution(2.0)


def test_chunks_are_strided_and_may_be_empty():
    chunks = st.seq_encode(ROWS, model=MODEL, num_chunks=3)
    assert [count for count, _ in chunks] == [3, 2, 2]
    assert chunks[1][1].x[0].tolist() == [1.0, 4.0]
    assert [count for count, _ in st.seq_encode([1], model=MODEL, num_chunks=3)] == [1, 0, 0]
    assert [count for count, _ in st.seq_encode(ROWS, model=MODEL, chunk_size=3)] == [3, 2, 2]
    assert [count for count, _ in st.seq_encode([], model=MODEL)] == [0]


def test_any_of_the_three_tells_the_encoding():
    encoder = MODEL.dist_to_encoder()
    ways = [{"encoder": encoder}, {"estimator": st.PoissonEstimator()}, {"model": MODEL}, {"encoder": MODEL}]
    for way in [*ways, {"encoder": st.PoissonEstimator()}]:
        assert st.seq_encode(ROWS, **way)[0][1].x[0].tolist() == ROWS
    with pytest.raises(ValueError, match="At least one arg: encoder, estimator, or dist must be passed"):
        st.seq_encode(ROWS)
    with pytest.raises(TypeError, match="int is no encoder"):
        st.seq_encode(ROWS, 3)


@pytest.mark.parametrize("data", [iter(ROWS), (x for x in ROWS), tuple(ROWS), range(7), np.arange(7)])
def test_every_sequence_and_iterator_is_rows(data):
    assert st.seq_log_density_sum(st.seq_encode(data, model=MODEL), MODEL)[0] == 7


@pytest.mark.parametrize("data", [None, "abc", b"abc", {"a": [1]}])
def test_what_is_no_rows_is_refused(data):
    with pytest.raises(TypeError, match="sequence of rows"):
        st.seq_encode(data, model=MODEL)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_chunk_counts_are_positive_integers(wrong):
    for name in ("num_chunks", "chunk_size"):
        with pytest.raises(ValueError, match=name):
            st.seq_encode(ROWS, model=MODEL, **{name: wrong})


def test_a_bad_row_is_named_by_its_position_in_the_data():
    rows = [*ROWS, math.nan, 1]
    for chunks in (1, 2, 3, 5):
        with pytest.raises(RowError) as caught:
            st.seq_encode(rows, model=MODEL, num_chunks=chunks)
        assert caught.value.row == 7


def test_rows_are_conserved():
    class Lossy(type(MODEL.dist_to_encoder())):
        def row_count(self, payload):
            return super().row_count(payload) - 1

    with pytest.raises(ValueError, match="was given 7 rows and its payload has 6"):
        st.seq_encode(ROWS, Lossy(MODEL.leaf))


def test_sums_and_densities_of_chunks():
    chunks = st.seq_encode(ROWS, model=MODEL, num_chunks=2)
    each = [MODEL.log_density(x) for x in ROWS]
    count, total = st.seq_log_density_sum(chunks, MODEL)
    assert count == 7
    assert total == pytest.approx(math.fsum(each))
    first, second = st.seq_log_density(chunks, MODEL)
    assert first.tolist() == each[::2]
    assert second.tolist() == each[1::2]
    pair = st.seq_log_density(chunks, [MODEL, st.PoissonDistribution(3.0)])
    assert [part.shape for part in pair] == [(2, 4), (2, 3)]
    assert pair[0][0].tolist() == each[::2]
    assert st.seq_log_density_sum([], MODEL) == (0, 0)
    impossible = st.seq_encode([1, -1], model=MODEL)
    assert st.seq_log_density_sum(impossible, MODEL) == (2, -math.inf)


def test_a_handle_is_asked_first():
    class Handle:
        def pysp_seq_log_density_sum(self, model):
            return 5.0, model.log_density(0)

        def pysp_seq_log_density(self, model):
            return [np.array([model.log_density(0)])]

        def __iter__(self):
            return iter([(1, "not the way")])

    assert st.seq_log_density_sum(Handle(), MODEL) == (5.0, -2.0)
    assert st.seq_log_density(Handle(), MODEL) == [-2.0]


def test_every_sequence_can_be_cut():
    for rows in (collections.deque(ROWS), collections.UserList(ROWS), np.arange(7), range(7)):
        chunks = st.seq_encode(rows, model=MODEL, num_chunks=2)
        assert [payload.x[0].tolist() for _, payload in chunks] == [ROWS[::2], ROWS[1::2]]
    with pytest.raises(RowError) as caught:
        st.seq_encode(collections.deque([1, 2, 3, math.nan]), model=MODEL, num_chunks=2)
    assert caught.value.row == 3


def test_densities_of_rows():
    assert st.log_density(ROWS, MODEL).tolist() == [MODEL.log_density(x) for x in ROWS]
    assert st.density([0], MODEL) == pytest.approx([math.exp(-2.0)])
    assert st.sample(MODEL, 5, seed=1).tolist() == MODEL.sampler(1).sample(5).tolist()


def test_encoded_data_tells_count_and_bytes_and_stands_for_one_chunk():
    model = st.GaussianDistribution(0.0, 1.0)
    encoder = model.dist_to_encoder()
    payload = encoder.seq_encode([1.0, 2.0])
    data = st.as_encoded_data(payload, 2, encoder)
    assert (data.count, data.nbytes, data.encoder, data.engine) == (2, 16, encoder, "numpy")
    assert data.payload is payload
    assert data.as_seq_chunk() == (2, payload) == next(iter(data))
    assert len(data) == 1
    assert st.seq_log_density_sum(data, model) == st.seq_log_density_sum([(2, payload)], estimate=model)
    assert st.EncodedData.from_data([1.0, 2.0], encoder).as_seq_chunk()[1].tolist() == [1.0, 2.0]
    assert [field.name for field in dataclasses.fields(data)] == ["count", "payload", "engine", "nbytes", "encoder"]


def test_encoded_data_checks_the_count():
    payload = np.zeros(2)
    for wrong in (-1, 2.0, True, None, 3):
        with pytest.raises(ValueError, match="count"):
            st.as_encoded_data(payload, wrong)
    with pytest.raises(ValueError, match="pass the encoder"):
        st.as_encoded_data({"a": payload}, 2)
    with pytest.raises(ValueError, match="engine 'torch' is not built in"):
        st.as_encoded_data(payload, 2, None, "torch")


def test_bytes_of_encoded_rows():
    encoder = st.GaussianDistribution(0.0, 1.0).dist_to_encoder()
    chunks = st.seq_encode([1.0, 2.0, 3.0], encoder, num_chunks=2)
    assert st.encoded_nbytes(chunks) == st.encoded_nbytes(chunks, encoder) == 24
    assert st.encoded_nbytes(chunks[0][1], encoder) == st.encoded_nbytes(chunks[0][1]) == 16
    assert st.encoded_nbytes(st.as_encoded_data(*reversed(chunks[0]))) == 16
    assert st.encoded_nbytes({"a": np.zeros(2), "b": (1, "x")}) == 16


def test_what_is_not_encoded_is_refused():
    with pytest.raises(TypeError, match="list of"):
        st.seq_log_density(3, MODEL)


def test_a_sample_is_drawn_by_a_seed_or_by_an_rng():
    wanted = MODEL.sampler(np.random.RandomState(5).randint(2**31)).sample(3).tolist()
    assert st.sample(MODEL, 3, rng=np.random.RandomState(5)).tolist() == wanted
    assert len(st.sample(MODEL, 3, seed=1, batched=False)) == 3
    with pytest.raises(TypeError, match="seed and rng"):
        st.sample(MODEL, 3, seed=1, rng=np.random.RandomState(5))


def test_numpy_is_the_engine():
    payload = np.zeros(3)
    moved = st.move_encoded_payload(payload)
    assert isinstance(moved, st.ResidentEncodedPayload)
    assert moved.host_payload is moved.engine_payload is payload
    assert st.move_encoded_payload(moved, "numpy").host_payload is payload
    with pytest.raises(ValueError, match="engine 'torch' is not built in"):
        st.move_encoded_payload(payload, "torch")
    assert st.seq_log_density_sum([(3, moved)], st.GaussianDistribution(0.0, 1.0))[0] == 3


def test_every_name_of_the_package_is_there_and_no_other():
    for name in st.__all__:
        assert getattr(st, name) is not None
        assert name in dir(st)
    for name in ("estimate", "initialize", "seq_estimate", "seq_initialize"):
        assert name not in st.__all__
        with pytest.raises(AttributeError, match=name):
            getattr(st, name)


def test_the_base_classes_are_where_users_import_them_from():
    from mixle.stats.compute import pdist

    for name in pdist.__all__:
        assert getattr(pdist, name) is not None
    assert issubclass(st.GaussianDistribution, pdist.SequenceEncodableProbabilityDistribution)
    assert issubclass(st.GaussianEstimator, pdist.ParameterEstimator)
    assert pdist.ParameterEstimator.__module__ == "mixle.stats.compute.pdist"


@pytest.mark.parametrize(
    "statement", ["import mixle.stats", "from mixle.stats.compute import pdist", "from mixle.stats import *"]
)
def test_importing_the_package_loads_nothing_heavy(statement):
    code = f"import numpy, sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    late = ("scipy", "numpy.random", "json", "hashlib", "multiprocessing", "pandas")
    assert not [name for name in loaded if name.startswith(late)]
