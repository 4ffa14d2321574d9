"""What a family of one's own need not write: the encoder's defaults, and how they refuse a layout they cannot read."""

import numpy as np
import pytest

from mixle.stats import CategoricalDistribution, GaussianDistribution, PoissonDistribution, TruncatedDistribution
from mixle.stats.combinators.truncation import Kept
from mixle.stats.contract import DataSequenceEncoder


class Pairs(DataSequenceEncoder):
    """Rows of two numbers, as two arrays."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def seq_encode(self, rows):
        return tuple(np.array(column) * self.scale for column in zip(*rows, strict=True))


class Bags(Pairs):
    """Rows of any length, as a dict."""

    def seq_encode(self, rows):
        return {"rows": rows}


def test_arrays_of_one_length_are_counted_cut_and_weighed():
    encoder = Pairs()
    payload = encoder.seq_encode([(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)])
    assert encoder.row_count(payload) == 3
    assert encoder.row_count(payload[0]) == 3
    assert encoder.nbytes(payload) == 48
    assert [part.tolist() for part in encoder.slice(payload, 1, 3)] == [[3.0, 5.0], [4.0, 6.0]]
    assert encoder.slice(payload[0], 0, 1).tolist() == [1.0]
    assert encoder.columns(payload, 0, 3) is None


@pytest.mark.parametrize(
    "payload", [{"rows": []}, (np.zeros(2), np.zeros(3)), (np.zeros(2), "b"), (), np.array(1.0)], ids=repr
)
def test_other_layouts_ask_for_methods_of_their_own(payload):
    with pytest.raises(NotImplementedError, match=r"Bags must define row_count\(payload\): its layout is not plain"):
        Bags().row_count(payload if isinstance(payload, (dict, tuple)) else [payload])
    if not isinstance(payload, np.ndarray):
        with pytest.raises(NotImplementedError, match=r"Bags must define slice\(payload, start, stop\)"):
            Bags().slice(payload, 0, 1)
    assert Bags().nbytes({"rows": []}) == 0


def test_encoders_are_equal_by_type_and_settings():
    assert Pairs() == Pairs()
    assert hash(Pairs()) == hash(Pairs(2.0))
    assert Pairs() != Pairs(2.0)
    assert Pairs() != Bags()
    assert str(Bags()) == "Bags"


@pytest.mark.parametrize(
    ("base", "limits", "message"),
    [
        (PoissonDistribution(2.0), {"allowed": [1], "low": 0.0}, "one kind of limit; pass allowed=, or forbidden="),
        (GaussianDistribution(0.0, 1.0), {"allowed": [1.0]}, "pass low= and high="),
        (PoissonDistribution(2.0), {"forbidden": [[1]]}, "values of a Truncated must be hashable"),
        (PoissonDistribution(2.0), {"forbidden": []}, "a list of at least one value, none missing"),
        (PoissonDistribution(2.0), {"forbidden": [None]}, "a list of at least one value, none missing"),
        (GaussianDistribution(0.0, 1.0), {"low": float("nan")}, "low of a Truncated must be a number, not nan"),
    ],
)
def test_limits_that_say_nothing_are_refused(base, limits, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TruncatedDistribution(base, **limits)


def test_rows_that_cannot_be_looked_up_are_not_among_the_allowed():
    kept = Kept([("a", 1), "b"], None, None, None)
    assert kept.inside(["b", ["a"], ("a", 1), {}]).tolist() == [True, False, True, False]
    assert hash(kept) == hash(Kept(["c"], None, None, None))
    assert kept != Kept(["c"], None, None, None)


def test_allowed_labels_are_drawn_by_their_shares():
    law = TruncatedDistribution(CategoricalDistribution({"a": 0.5, "b": 0.375, "c": 0.125}), allowed=["a", "c"])
    drawn = law.sampler(3).sample(4000)
    assert set(drawn) == {"a", "c"}
    assert abs(drawn.count("a") / 4000 - 0.8) < 0.03


def test_a_rare_region_of_counts_is_drawn_from_its_points():
    drawn = TruncatedDistribution(PoissonDistribution(2.0), low=14.0).sampler(1).sample(500)
    assert min(drawn) == 14
    assert all(type(x) is int for x in drawn)
    law = PoissonDistribution(2.0)
    share = np.exp(law.log_density(14)) / np.exp([law.log_density(x) for x in range(14, 60)]).sum()
    assert abs(drawn.count(14) / 500 - share) < 0.07
