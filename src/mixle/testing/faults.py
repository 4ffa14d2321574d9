"""Campaigns of wrong numbers: whether what guards a fit sees them, and whether the finished model stays right.

A fit is run again and again, each time with one fault: a flipped bit of one band (sign, exponent, a quarter of the
mantissa), two bits, a bit that is stuck, a row read for another, a worker that is wrong now and then. Each fault is
also put into a fit that nothing guards, to see whether it matters.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from mixle.errors import BackendError
from mixle.testing.bound import Chaos
from mixle.testing.corruption import Corruption
from mixle.testing.fault import check_count, check_word
from mixle.testing.injection import Injection, PayloadFaults, spoiled
from mixle.testing.numbers import BANDS as BITS
from mixle.testing.numbers import relative_difference
from mixle.testing.report import Cell, Report

if TYPE_CHECKING:
    from random import Random

    from mixle.utils.parallel.policies.base import Policy

__all__ = ["BANDS", "SITES", "Cell", "Report", "campaign"]

#: Where numbers may be wrong.
SITES = (
    "rows",
    "encoded",
    "model",
    "log_densities",
    "responsibilities",
    "statistic",
    "payload",
    "wire",
    "fold",
    "m_step",
)
#: How they may be.
BANDS = (*BITS, "two bits", "stuck bit", "wrong row", "intermittent")
TOLERANCE = 1e-10
CHANCE = 0.1  # of a worker that is wrong now and then, per shard and round
LATENT = ("log_densities", "responsibilities")


def campaign(
    estimator: Any,
    rows: Any,
    sites: Iterable[str] = SITES,
    bands: Iterable[str] = BANDS,
    trials: int = 5,
    seed: int = 0,
    policies: Sequence[Policy] | None = None,
    **options: Any,
) -> Report:
    """Put faults into fits and count what came of them.

    Parameters
    ----------
    estimator : ParameterEstimator
        The user's model.
    rows : sequence or ndarray
        The user's data, or some of it.
    sites : iterable of str
        Where: "rows" (resident rows of one worker, wrong from then on), "encoded" (the same, read wrongly once),
        "model" (as a worker received it), "log_densities" and "responsibilities" (of mixtures, as a worker computes
        them), "statistic" (as a worker hands it over), "payload" (in the driver's memory), "wire" (on the way, after
        its checksum was made; process pools only), "fold" (the running sum), "m_step" (the new model).
    bands : iterable of str
        What: the six bands of a double, "two bits", "stuck bit" (in every round), "wrong row" (sites "rows" and
        "encoded"), "intermittent" (now and then).
    trials : int
        Faults per site and band.
    seed : int
        Of the choice of shards, numbers and bits.
    policies : sequence of Policy, optional
        What guards the fit; ``[Retry(10**9), Audit(1.0, quarantine=False)]`` if not given.
    **options : Any
        Of `encoded_data`: ``backend`` ("mp"), ``num_workers`` (2), ``num_shards`` (6) and others; and ``rounds`` (3),
        E-steps per fit.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        For an unknown site or band; the nearest is suggested.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator, MixtureEstimator
    >>> rows = [i % 7 - 3.0 for i in range(60)] + [i % 5 + 20.0 for i in range(40)]
    >>> report = campaign(MixtureEstimator([GaussianEstimator()] * 2), rows, ["payload"], ["mantissa 1"], trials=3,
    ...                   policies=[], backend="local")
    >>> cell = report.cell("payload", "mantissa 1")
    >>> cell.injected, cell.detected, cell.escaped == cell.consequential
    (3, 0, True)
    """
    from random import Random

    site_names = [check_word(site, SITES, "the site") for site in sites]
    band_names = [check_word(band, BANDS, "the band") for band in bands]
    count = check_count(trials, "trials", 1) or 1
    rounds = check_count(options.pop("rounds", 3), "rounds", 1) or 1
    if policies is None:
        from mixle.utils.parallel.policies.audit import Audit
        from mixle.utils.parallel.policies.retry import Retry

        policies = [Retry(10**9), Audit(1.0, quarantine=False)]
    options = {"backend": "mp", "num_shards": 6, **options}
    if options["backend"] == "mp":
        options.setdefault("num_workers", 2)
    about = {"sites": site_names, "bands": band_names, "trials": count, "seed": seed, "rounds": rounds}
    report = Report(about={**about, "policies": [type(policy).__name__ for policy in policies]})
    with _Rig(estimator, rows, policies, rounds, options) as rig:
        for site in site_names:
            for band in band_names:
                if (band == "wrong row") <= (site in {"rows", "encoded"}):
                    rng = Random(f"{seed} {site} {band}")  # noqa: S311 - a choice that can be repeated, no secret
                    report.cells.append(rig.cell(Cell(site, band), count, rng))
    return report


class _Rig:
    """Two handles of the same rows: one that is guarded, one that is not."""

    def __init__(
        self, estimator: Any, rows: Any, policies: Sequence[Policy], rounds: int, options: dict[str, Any]
    ) -> None:
        from mixle.utils.parallel.planner import encoded_data

        self.estimator, self.rows, self.rounds = estimator, rows, rounds
        self.policies, self.options = list(policies), options
        split = {name: options[name] for name in ("num_shards", "sub_chunks", "weights") if name in options}
        self.bare = _Fit(encoded_data(rows, estimator, policies=[Chaos(()), PayloadFaults()], **split))
        handle = self.bare.handle
        self.start = handle.pysp_seq_initialize(estimator, 0, 0.5)
        self.latent = _walks(handle, estimator, self.start)
        self.clean = self.bare.run(estimator, self.start, rounds, None)
        self._guarded: _Fit | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.bare.handle.close()

    def _close(self) -> None:
        if self._guarded is not None:
            self._guarded.handle.close()
            self._guarded = None

    def guarded(self) -> _Fit:
        """Return the guarded fit, opened anew if it lost a worker for good."""
        from mixle.utils.parallel.planner import encoded_data

        if self._guarded is not None and self._guarded.worn():
            self._close()
        if self._guarded is None:
            policies = [Chaos(()), PayloadFaults(), *self.policies]
            self._guarded = _Fit(encoded_data(self.rows, self.estimator, policies=policies, **self.options))
        return self._guarded

    def cell(self, cell: Cell, trials: int, rng: Random) -> Cell:
        """Try one site and band."""
        if cell.site in LATENT and not self.latent:
            cell.note = "this model's E-step has none that could be reached"
        if cell.site == "wire" and self.options["backend"] != "mp":
            cell.note = "nothing travels in frames of this library"
        if cell.site == "wire":
            cell.consequential = None
        for _ in range(0 if cell.note else trials):
            self._trial(cell, self._drawn(cell, rng))
        return cell

    def _drawn(self, cell: Cell, rng: Random) -> Injection:
        shards = self.bare.handle.num_shards
        band = cell.band
        how = {"stuck bit": "stuck", "wrong row": "row"}.get(band, "flip")
        bits = tuple(rng.sample(range(64), 2 if band == "two bits" else 1))
        if band in BITS:
            bits = (rng.choice(BITS[band]),)
        everywhere = range(1, self.rounds + 1)
        hit: tuple[int, ...] = (1,)
        if how == "stuck" or cell.site == "rows":
            hit = tuple(everywhere)
        elif band == "intermittent":
            hit = ()
            while not hit:
                hit = tuple(number for number in everywhere if rng.random() < CHANCE)
        place = "encoded" if cell.site == "rows" else cell.site
        lasting = how == "stuck" or cell.site == "rows"
        return Injection(cell.site, Corruption(place, rng.random(), bits, how), rng.randrange(shards), hit, lasting)

    def _trial(self, cell: Cell, injection: Injection) -> None:
        found = self.guarded().run(self.estimator, self.start, self.rounds, injection)
        if not found.struck:
            return
        cell.injected += 1
        if cell.consequential is not None:
            bare = self.bare.run(self.estimator, self.start, self.rounds, injection)
            cell.consequential += _off(bare, self.clean)
        first = injection.rounds[0]
        cell.detected += found.told == first
        cell.late += found.told is not None and found.told > first
        cell.raised += found.error is not None
        cell.escaped += found.error is None and _off(found, self.clean)
        cell.equal_bits += found.error is None and found.model.digest() == self.clean.model.digest()


class _Outcome:
    """What a fit came to."""

    def __init__(self) -> None:
        self.model: Any = None
        self.error: Exception | None = None
        self.told: int | None = None
        self.struck = False


class _Fit:
    """Runs fits on one handle and listens to what its policies say."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.transport = handle.transport
        self.chaos = _layer(self.transport, Chaos)
        self.payload = _layer(self.transport, PayloadFaults)
        self.workers = self._workers()

    def _workers(self) -> int:
        workers = getattr(self.transport, "workers", None)
        return 1 if workers is None else len(workers())

    def worn(self) -> bool:
        """Return whether a worker was retired."""
        return self._workers() < self.workers

    def told(self) -> tuple[int, ...]:
        """Return counts that grow when something is noticed."""
        look = self.transport
        failures = sum((getattr(look, "failures", None) or {}).values())
        lists = [
            len(getattr(look, name, None) or ()) for name in ("receipts", "alarms", "differences", "last_unbalanced")
        ]
        return (failures, *lists, len(getattr(self.handle, "receipts", None) or ()))

    def run(self, estimator: Any, start: Any, rounds: int, injection: Injection | None) -> _Outcome:
        """Run a fit with one fault."""
        outcome, struck = _Outcome(), list[int]()
        if injection is not None and injection.site in {"fold", "m_step"}:
            estimator, struck = spoiled(estimator, injection)
        owner = (getattr(self.transport, "owner", None) or {}).get(injection.shard) if injection else None
        self.chaos.rearm(injection.faults(owner) if injection else ())
        self.payload.arm(injection)
        outcome.model = start
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fit that goes wrong warns
                self._rounds(outcome, estimator, rounds)
        finally:
            outcome.struck = bool(struck or self.payload.struck or self.chaos.ledger.entries())
            self.chaos.rearm(())
            self.payload.arm(None)
        return outcome

    def _rounds(self, outcome: _Outcome, estimator: Any, rounds: int) -> None:
        for number in range(1, rounds + 1):
            before = self.told()
            try:
                step = self.handle.estep(estimator, outcome.model)
                outcome.model = self.handle.m_step(estimator, step, outcome.model)
            except BackendError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the fault was not passed over in silence
                outcome.error = error
            after = self.told()
            if outcome.told is None and (
                outcome.error is not None or any(b > a for a, b in zip(before, after, strict=True))
            ):
                outcome.told = number
            if outcome.error is not None:
                return


def _layer(transport: Any, kind: type) -> Any:
    while not isinstance(transport, kind):
        transport = transport.inner
    return transport


def _off(found: _Outcome, clean: _Outcome) -> bool:
    """Return whether a finished model is not the clean one."""
    if found.error is not None:
        return True
    try:
        difference = relative_difference(found.model, clean.model)
    except Exception:  # noqa: BLE001 - a model that cannot even be written down
        return True
    return math.isnan(difference) or difference > TOLERANCE


def _walks(handle: Any, estimator: Any, model: Any) -> bool:
    """Return whether the E-step of a model computes responsibilities in blocks."""
    chaos = _layer(handle.transport, Chaos)
    probe = Injection("responsibilities", Corruption("responsibilities"), 0, (1,), lasting=False)
    chaos.rearm(probe.faults(None))
    wanted = handle.estep
    try:
        spoiled_step = wanted(estimator, model)
    except Exception:  # noqa: BLE001 - it was reached
        return True
    finally:
        chaos.rearm(())
    from mixle.testing.bits import bits

    return bool(bits(spoiled_step.value) != bits(wanted(estimator, model).value))
