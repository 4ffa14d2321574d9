"""Campaigns of wrong numbers: they reach every site, and count what came of it."""

import json
import os

import numpy as np
import pytest

import mixle.stats as st
from mixle.testing.faults import BANDS, SITES, campaign
from mixle.testing.injection import IN_WORKERS
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.retry import Retry

pytestmark = [pytest.mark.chaos, pytest.mark.injections]

TRIALS = 100 if os.environ.get("MIXLE_INJECTIONS") == "full" else 1
ROWS = np.concatenate([np.random.RandomState(0).normal(size=90), np.random.RandomState(1).normal(5.0, 1.0, size=90)])
EST = st.MixtureEstimator([st.GaussianEstimator()] * 2)
#: Where a second computation sees everything; the fold and the M-step are the driver's own.
RECOMPUTED = [site for site in SITES if site not in {"wire", "fold", "m_step"}]


def test_unguarded_fits_are_wrong_where_it_matters():
    report = campaign(EST, ROWS, trials=max(2, TRIALS), policies=[], backend="local")
    for cell in report.cells:
        assert cell.escaped + cell.raised == cell.consequential or cell.site == "wire"
        assert cell.detected + cell.late == cell.raised
        assert cell.injected == (0 if cell.site == "wire" else max(2, TRIALS))
    for site in set(SITES) - {"wire"}:
        assert report.cell(site, "exponent").consequential + report.cell(site, "sign").consequential > 0
    assert report.cell("wire", "sign").note == "nothing travels in frames of this library"


def test_a_full_audit_lets_nothing_through_and_keeps_the_bits():
    report = campaign(EST, ROWS, RECOMPUTED, trials=TRIALS)
    assert len(report.cells) == len(RECOMPUTED) * (len(BANDS) - 1) + 2
    for cell in report.cells:
        assert (cell.escaped, cell.raised) == (0, 0), cell
        assert cell.equal_bits == cell.injected, cell
        assert cell.detected + cell.late >= cell.consequential, cell
        # later: a bit that was set already in the round of the fault
        assert cell.late == 0 or cell.band in {"intermittent", "stuck bit"}
    assert report.total("injected") == TRIALS * len(report.cells)
    assert report.total("consequential") > 0


def test_what_is_altered_on_the_wire_is_told_always():
    report = campaign(EST, ROWS, ["wire"], trials=TRIALS)
    for cell in report.cells:
        assert cell.consequential is None
        assert cell.detected == cell.injected == TRIALS
        assert cell.escaped == 0
        assert cell.equal_bits + cell.raised == TRIALS


def test_invariants_alone_see_some_and_say_which():
    policies = [Retry(10**9), Audit(0.0, quarantine=False)]
    report = campaign(EST, ROWS, ["statistic", "payload"], ["exponent", "sign"], trials=5 * TRIALS, policies=policies)
    assert report.total("detected") > 0
    assert report.total("escaped") <= report.total("consequential")


@pytest.mark.parametrize("site", ["fold", "m_step"])
def test_the_drivers_own_sites_are_reached(site):
    report = campaign(EST, ROWS, [site], ["exponent", "mantissa 1"], trials=2 * TRIALS, backend="local", policies=[])
    for cell in report.cells:
        assert cell.injected == 2 * TRIALS
        assert cell.escaped + cell.raised == cell.consequential
        assert cell.equal_bits == 0


def test_a_report_is_plain_data_and_repeats_with_its_seed():
    words = {"sites": ["statistic"], "bands": ["sign", "two bits"], "trials": 3, "policies": [], "backend": "local"}
    report = campaign(EST, ROWS, **words)
    assert json.loads(json.dumps(report.as_dict())) == report.as_dict()
    assert report.as_dict() == campaign(EST, ROWS, **words).as_dict()
    lines = str(report).splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["statistic", "sign"], ["statistic", "two"]]
    assert len({len(line) for line in lines}) == 1
    with pytest.raises(KeyError, match="tried were"):
        report.cell("fold", "sign")


def test_a_model_without_responsibilities_says_so():
    report = campaign(
        st.PoissonEstimator(), [1, 2, 3, 4] * 9, ["responsibilities"], ["sign"], trials=2, backend="local", policies=[]
    )
    assert report.cells[0].injected == 0
    assert "could be reached" in report.render()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"sites": ["statistics"]}, "Did you mean 'statistic'"),
        ({"bands": ["mantissa"]}, "Did you mean 'mantissa"),
        ({"trials": 0}, "trials must be"),
        ({"rounds": 0}, "rounds must be"),
    ],
)
def test_what_makes_no_sense_is_refused(words, text):
    with pytest.raises(ValueError, match=text):
        campaign(EST, ROWS, **words)


def test_sites_in_workers_are_sites():
    assert set(IN_WORKERS) < set(SITES)
