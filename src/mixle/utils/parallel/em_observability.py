"""Runtime observability of distributed EM: what each rank did in each round, and what it says about the fit."""

from __future__ import annotations

from mixle._facade import publish
from mixle.utils.parallel.observing.diagnose import Diagnosis, diagnose
from mixle.utils.parallel.observing.imbalance import ImbalanceReceipt, imbalance_receipt
from mixle.utils.parallel.observing.rebalance import plan_rebalance_weights
from mixle.utils.parallel.observing.records import RankRecord, record_rank_round, records_from_events
from mixle.utils.parallel.observing.report import FitReport, fit_report
from mixle.utils.parallel.observing.stragglers import StragglerReport, detect_stragglers
from mixle.utils.parallel.observing.trace import chrome_trace, write_chrome_trace

__all__ = [
    "Diagnosis",
    "FitReport",
    "ImbalanceReceipt",
    "RankRecord",
    "StragglerReport",
    "chrome_trace",
    "detect_stragglers",
    "diagnose",
    "fit_report",
    "imbalance_receipt",
    "plan_rebalance_weights",
    "record_rank_round",
    "records_from_events",
    "write_chrome_trace",
]

publish(
    __name__,
    Diagnosis,
    FitReport,
    ImbalanceReceipt,
    RankRecord,
    StragglerReport,
    chrome_trace,
    detect_stragglers,
    diagnose,
    fit_report,
    imbalance_receipt,
    plan_rebalance_weights,
    record_rank_round,
    records_from_events,
    write_chrome_trace,
)
