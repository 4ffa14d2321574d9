"""Faults by site: what is armed in a worker, or in this process, and strikes once (or as long as a bit is stuck).

In a module of its own, so that workers need not import pytest.
"""

import random
from dataclasses import replace

import numpy as np

BANDS = {
    "sign": (63, 64),
    "exponent": (52, 63),
    "mantissa 1": (39, 52),
    "mantissa 2": (26, 39),
    "mantissa 3": (13, 26),
    "mantissa 4": (0, 13),
}
IN_WORKERS = ("resident rows", "encoded chunk", "model as received", "log-densities", "responsibilities", "statistics")
IN_DRIVER = ("payload in memory", "payload on the wire", "running fold", "M-step")
FAULTS = (*BANDS, "two bits", "stuck bit", "wrong row")


def arrays_of(value):
    """Return the float arrays of a statistic."""
    if isinstance(value, np.ndarray):
        return [value] if value.dtype.kind == "f" and value.size else []
    return [array for item in value for array in arrays_of(item)] if isinstance(value, (tuple, list)) else []


class Fault:
    """What happens to the numbers of an array: one bit of one of them, two, the same bit of all, another row."""

    def __init__(self, kind, seed):
        self.kind, self.seed = kind, seed
        rng = random.Random(seed)
        low, high = BANDS.get(kind, (0, 64))
        self.bits = rng.sample(range(low, high), 2 if kind == "two bits" else 1)
        self.place = rng.random()

    @property
    def sticky(self):
        return self.kind == "stuck bit"

    def strike(self, array):
        """Change `array` of float64 in place; return whether anything changed."""
        before = array.copy()
        words = array.view(np.uint64)
        where = int(self.place * array.size)
        at, after = (np.unravel_index((where + step) % array.size, array.shape) for step in (0, 1))
        mask = np.uint64(sum(1 << bit for bit in self.bits))
        if self.kind == "stuck bit":
            words |= mask
        elif self.kind == "wrong row":
            words[at] = words[after]
        else:
            words[at] ^= mask
        return not np.array_equal(before.view(np.uint64), words)

    def strike_one_of(self, arrays):
        arrays = [one for one in arrays if one.size]
        return self.strike(arrays[int(self.place * 997) % len(arrays)])

    def number(self, value):
        array = np.array([value, np.nextafter(value, 1e300)], float)
        if self.kind == "wrong row":
            return float(array[1])
        self.place = 0.0
        self.strike(array)
        return float(array[0])


class Once:
    """Puts a wrapper in place of an attribute until it struck."""

    def __init__(self, owner, name, wrapper, sticky=False):
        self.owner, self.name, self.sticky, self.struck = owner, name, sticky, False
        self.original = getattr(owner, name)
        original, once = self.original, self

        def replacement(*args, **more):
            if once.struck and not once.sticky:
                return original(*args, **more)
            result, changed = wrapper(original, *args, **more)
            once.struck = once.struck or changed
            return result

        setattr(owner, name, replacement)

    def end(self):
        setattr(self.owner, self.name, self.original)


armed = []


def disarm(shard=None):
    """End what is armed in this process; return whether it struck."""
    struck = [one.struck for one in armed]
    while armed:
        armed.pop().end()
    return any(struck)


def model_fault(model, fault):
    """Change a parameter of a mixture in place."""
    component = model.components[int(fault.place * 31) % len(model.components)]
    names = [name for name, value in vars(component).items() if type(value) is float]
    name = names[int(fault.place * 101) % len(names)]
    old = vars(component)[name]
    vars(component)[name] = new = fault.number(old)
    return np.float64(old).view(np.uint64) != np.float64(new).view(np.uint64)


def arm(shard, site, fault):
    """Arm a fault in this worker: an `Apply` of this runs there."""
    from mixle.stats.stacking.walk import Walk
    from mixle.utils.parallel.folding.tasks import Accumulate
    from mixle.utils.parallel.transports.process import worker

    disarm()
    if site == "resident rows":
        array = shard.chunks[0].payload
        assert array.flags.writeable
        return fault.strike(array)

    def encoded(original, one):
        made = original(one)
        wrong = made.chunks[0].payload.copy()  # rows that lie in the pool's memory file are sealed
        changed = fault.strike(wrong)
        return replace(made, chunks=(replace(made.chunks[0], payload=wrong), *made.chunks[1:])), changed

    def received(original, task, *args):
        changed = model_fault(task.model, fault)
        return original(task, *args), changed

    def scored(original, walk, start, stop, out):
        original(walk, start, stop, out)
        return None, fault.strike(out)

    def normalised(original, walk, *args):
        block = original(walk, *args)
        return block, fault.strike(block.responsibilities)

    def summed(original, task, *args):
        outcome = original(task, *args)
        return outcome, fault.strike_one_of(arrays_of(outcome[0]))

    places = {
        "encoded chunk": (worker, "packed", encoded),
        "model as received": (Accumulate, "run", received),
        "log-densities": (Walk, "score_block", scored),
        "responsibilities": (Walk, "_normalise", normalised),
        "statistics": (Accumulate, "_sum", summed),
    }
    armed.append(Once(*places[site], sticky=fault.sticky))
    return True


def arm_now_and_then(shard, chance, seed):
    """Let a fraction of this worker's statistics come out wrong, each in a last bit of one of its sums."""
    from mixle.utils.parallel.folding.tasks import Accumulate

    rng = random.Random(seed)

    def summed(original, task, *args):
        value, *rest = original(task, *args)
        if rng.random() < chance:
            fault = Fault("mantissa 4", rng.randrange(1 << 30))
            fault.bits = [rng.randrange(4)]  # far inside the envelope
            fault.strike_one_of(arrays_of(value))
        return (value, *rest), False

    disarm()
    armed.append(Once(Accumulate, "_sum", summed))


def arm_here(site, fault):
    """Arm a fault in the driver."""
    from mixle.stats.latent.mixture import MixtureEstimator
    from mixle.stats.latent.mixture_accumulator import MixtureAccumulator
    from mixle.utils.parallel.transports.process.transport import ProcessTransport

    disarm()

    def read(original, transport, shard, rank, body):
        result = original(transport, shard, rank, body)
        arrays = arrays_of(result.value)
        return result, bool(arrays) and fault.strike_one_of(arrays)

    def wire(original, transport, shard, rank, body):
        at = int(fault.place * len(body))
        for bit in fault.bits:
            body[at] ^= 1 << (bit % 8)
        return original(transport, shard, rank, body), True

    def combined(original, accumulator, value):
        result = original(accumulator, value)
        arrays = [] if accumulator.stat is None else arrays_of(accumulator.stat)
        return result, bool(arrays) and fault.strike_one_of(arrays)

    def estimated(original, estimator, *args):
        model = original(estimator, *args)
        return model, model_fault(model, fault)

    places = {
        "payload in memory": (ProcessTransport, "_read", read),
        "payload on the wire": (ProcessTransport, "_read", wire),
        "running fold": (MixtureAccumulator, "combine", combined),
        "M-step": (MixtureEstimator, "estimate", estimated),
    }
    armed.append(Once(*places[site], sticky=False))
