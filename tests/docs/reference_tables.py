"""The tables of docs/reference that are made from the library itself.

``python tests/docs/reference_tables.py`` writes them into their pages; `test_reference.py` compares.
"""

import inspect
import os
import pickle
import re
import warnings
from pathlib import Path
from threading import Lock

import numpy as np
import pandas as pd

from mixle import stats
from mixle.inference import optimize
from mixle.utils.parallel.planner import encoded_data

PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference"
MARKS = "<!-- made by tests/docs/reference_tables.py -->\n", "<!-- end -->\n"

_GAUSSIAN = stats.GaussianDistribution(0.0, 1.0)
_POISSON = stats.PoissonDistribution(2.0)
#: Of each family: what a row is, its support, a law, a row that it scores, and a row outside its support (or None).
FAMILIES = {
    "Bernoulli": ("a truth value, or 0 and 1", "both", (0.5,), True, None),
    "BernoulliSet": ("a set of labels", "sets of the labels seen in the fit", ({"a": 0.5},), {"a"}, {"b"}),
    "Beta": ("a number", "0 < x < 1", (2.0, 3.0), 0.5, 1.0),
    "Binomial": ("a whole number", "min_val, …, min_val + n", (0.5, 4), 4, 5),
    "Categorical": ("a label: anything hashable but NaN", "the labels seen in the fit", ({"a": 1.0},), "a", "b"),
    "DiagonalGaussian": ("a vector of d numbers", "all vectors", ([0.0, 0.0], [1.0, 1.0]), [1.0, 2.0], None),
    "Dirichlet": ("a vector of d shares that sum to one", "shares > 0", ([1.0, 2.0],), [0.5, 0.5], [0.0, 1.0]),
    "DirichletMultinomial": ("d counts", "counts that sum to n", ([1.0, 2.0], 3), [1, 2], [1, 1]),
    "Exponential": ("a number", "x ≥ 0", (1.0,), 0.0, -1.0),
    "Gamma": ("a number", "x > 0", (1.0, 1.0), 1.0, 0.0),
    "Gaussian": ("a number", "all numbers", (0.0, 1.0), -3.5, None),
    "Geometric": ("a whole number", "1, 2, 3, …", (0.5,), 1, 0),
    "Gumbel": ("a number", "all numbers", (0.0, 1.0), -3.5, None),
    "HalfNormal": ("a number", "x ≥ 0", (1.0,), 0.0, -1.0),
    "IntegerBernoulliSet": ("a set of whole numbers", "sets of 0, …, N − 1", ([-1.0, -2.0],), [0, 1], [2]),
    "IntegerCategorical": ("a whole number", "min_val, min_val + 1, …, as long as p_vec", (0, [0.5, 0.5]), 1, 2),
    "InverseGamma": ("a number", "x > 0", (1.0, 1.0), 1.0, 0.0),
    "InverseGaussian": ("a number", "x > 0", (1.0, 1.0), 1.0, 0.0),
    "Laplace": ("a number", "all numbers", (0.0, 1.0), -3.5, None),
    "LogGaussian": ("a number", "x > 0", (0.0, 1.0), 1.0, 0.0),
    "Logistic": ("a number", "all numbers", (0.0, 1.0), -3.5, None),
    "MultivariateGaussian": ("a vector of d numbers", "all vectors", ([0.0, 0.0], np.eye(2)), [1.0, 2.0], None),
    "MultivariateStudentT": ("a vector of d numbers", "all vectors", (5.0, [0.0, 0.0], np.eye(2)), [1.0, 2.0], None),
    "NegativeBinomial": ("a whole number", "0, 1, 2, …", (2.0, 0.5), 0, -1),
    "Pareto": ("a number", "x ≥ xm", (1.0, 2.0), 1.0, 0.5),
    "PointMass": ("anything hashable", "the one value", ("a",), "a", "b"),
    "Poisson": ("a whole number", "0, 1, 2, …", (2.0,), 0, -1),
    "Rayleigh": ("a number", "x > 0", (1.0,), 1.0, 0.0),
    "SkewNormal": ("a number", "all numbers", (0.0, 1.0, 2.0), -3.5, None),
    "StudentT": ("a number", "all numbers", (5.0,), -3.5, None),
    "Uniform": ("a number", "low ≤ x ≤ high", (0.0, 1.0), 1.0, 1.5),
    "VonMises": ("an angle in radians", "all angles", (0.0, 1.0), -3.5, None),
    "VonMisesFisher": ("a vector of d numbers of length one", "all directions", ([1.0, 0.0], 1.0), [0.0, 1.0], None),
    "Weibull": ("a number", "x > 0", (1.0, 1.0), 1.0, 0.0),
    "Composite": ("a tuple, one for each part", "that of the parts", ((_GAUSSIAN, _POISSON),), (0.5, 3), (0.5, -1)),
    "Record": ("a mapping with exactly these fields", "that of the parts", ({"n": _POISSON},), {"n": 3}, {"n": -1}),
    "Sequence": ("a list or array of elements", "that of the elements, of any length", (_POISSON,), [1, 2], [1, -1]),
    "Optional": ("a row of the child, or None or NaN", "that of the child, and missing", (_POISSON, 0.5), None, -1),
    "Ignored": ("a row of the law", "that of the law, which is not fitted", (_POISSON,), 3, -1),
    "Null": ("anything", "anything; every row scores 0", (), "x", None),
    "ZeroInflated": ("a count", "0, and that of the base", (_POISSON, 0.5), 0, -1),
    "Conditional": (
        "a pair (given, value)", "keys that have a law or a default, and that of the law", ({"a": _POISSON},),
        ("a", 3), ("b", 3),
    ),
    "Truncated": (
        "a row of the base", "what is seen of that of the base", (_GAUSSIAN, None, None, None, None, 0.0), 0.5, -1.0,
    ),
    "Censored": (
        "a number, or a pair (low, high) between which it lies", "that of the base",
        (stats.ExponentialDistribution(1.0),),
        (1.0, None), -1.0,
    ),
    "Transform": ("a number", "what the transform makes of the child's", (_GAUSSIAN, "exp"), 0.5, -1.0),
    "Weighted": ("a pair (value, weight)", "that of the values' law", (_POISSON,), (3, 0.5), (-1, 0.5)),
    "Select": (
        "a row of one of the laws", "that of the chosen law",
        ([_POISSON, _GAUSSIAN], stats.TypeDispatch([int, float])), 2.5, -1,
    ),
    "Hurdle": ("a count or a number", "0, and that of the base", (_POISSON, 0.5), 0, -1),
    "Mixture": ("a row of the components", "where one component is above 0", ([_POISSON],), 3, -1),
    "HiddenMarkovModel": (
        "a sequence of rows of the states' laws",
        "where one path is above 0",
        ([_POISSON, _POISSON], [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]),
        [1, 2],
        [1, -1],
    ),
    "HeterogeneousMixture": ("a row of the components", "where one component is above 0", ([_POISSON],), 3, -1),
    "GaussianMixture": (
        "a vector of d numbers", "all vectors", ([[0.0, 0.0]], [[1.0, 1.0]], [1.0]), [1.0, 2.0], None,
    ),
    "SemiSupervisedMixture": (
        "a row of the components and what it tells: None, or pairs (component, evidence)",
        "where a component it does not exclude is above 0", ([_POISSON, _POISSON],), (3, [(0, 1.0)]), (-1, None),
    ),
    "JointMixture": (
        "a pair of rows", "where one pair of components is above 0",
        ([_GAUSSIAN], [_POISSON], None, None, None, None, None, None, [[1.0]]), (0.5, 3), (0.5, -1),
    ),
    "HierarchicalMixture": (
        "a sequence of rows of the topics", "where one mixture is above 0",
        ([_POISSON, _POISSON], [1.0], [[0.5, 0.5]]), [1, 2], [1, -1],
    ),
    "LDA": (
        "a sequence of pairs (word, count)", "where each word is above 0 in a topic",
        ([_POISSON, _POISSON], [0.5, 0.5]), [(1, 2.0), (2, 1.0)], [(-1, 1.0)],
    ),
    "ProbabilisticPCA": (
        "a vector of d numbers", "all vectors", ([[1.0], [1.0]], [0.0, 0.0], 0.5), [1.0, 2.0], None,
    ),
    "Multinomial": (
        "pairs (value, count), or a mapping", "bags of values of the law",
        (stats.CategoricalDistribution({"a": 1.0}),), [("a", 2)], [("b", 1)],
    ),
    "IntegerMultinomial": (
        "pairs (whole number, count), or a mapping", "bags of min_val, min_val + 1, …, as long as p_vec",
        (0, [0.5, 0.5]), {1: 3}, [(2, 1)],
    ),
    "MarkovChain": (
        "a sequence of labels", "the labels seen in the fit, in an order it gives a chance",
        ({"a": 1.0}, {"a": {"a": 1.0}}), ["a", "a"], ["b"],
    ),
    "IntegerMarkovChain": (
        "a sequence of whole numbers", "at least `lag` of 0, …, num_values − 1",
        (2, [[0.9, 0.1], [0.1, 0.9]]), [0, 1], [2],
    ),
}  # fmt: skip
_EVERYWHERE = {"name", "keys"}

#: What the lines below may name, with every name of mixle.stats.
NAMES = {
    "Lock": Lock,
    "encoded_data": encoded_data,
    "gaussian": stats.GaussianEstimator(),
    "numbers": [1.0, 2.0, 3.0, 4.0],
    "optimize": optimize,
    "pandas": pd,
    "pickle": pickle,
}


def in_a_fork(call):
    """Call in a forked process; raise here what it raised there."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever it is
            os.write(writer, pickle.dumps(error))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if text:
        raise pickle.loads(text)


#: Situations and the line that is refused.
ERRORS = [
    ("no rows", "optimize([], gaussian)"),
    ("no rows for a handle", "encoded_data([], gaussian)"),
    ("no data", "optimize(None, gaussian)"),
    ("no estimator", "optimize(None, enc_data=handle)"),
    ("a class for an estimator", "optimize(numbers, GaussianEstimator)"),
    ("more components than rows", "optimize(numbers, MixtureEstimator([gaussian] * 5))"),
    ("a ragged row", "optimize([(1.0, 2.0), (3.0,)], CompositeEstimator((gaussian, gaussian)))"),
    ("a value of another type", "optimize([1.0, 'x', 2.0], gaussian)"),
    ("the same in a field", "optimize([(1.0, 2.0), (1.0, 'x')], CompositeEstimator((gaussian, gaussian)))"),
    ("the same on a pool", "encoded_data([1.0, 'x', 2.0], gaussian, backend='mp', num_workers=2)"),
    ("a missing value", "optimize([1.0, float('nan')], gaussian)"),
    ("an infinity", "optimize([1.0, float('inf')], gaussian)"),
    ("a row outside the support", "optimize([1.0, -1.0], GammaEstimator())"),
    ("an iterator for a handle", "encoded_data(iter(numbers), gaussian)"),
    ("a mapping of columns for a handle", "encoded_data({'x': numbers}, gaussian)"),
    ("a data frame for a handle", "encoded_data(pandas.DataFrame({'x': numbers}), gaussian)"),
    ("text for rows", "optimize('abc', gaussian)"),
    ("a set for rows", "optimize({1.0, 2.0}, gaussian)"),
    ("weights of another length", "optimize(numbers, gaussian, weights=[1.0, 2.0])"),
    ("weights that are all zero", "optimize(numbers, gaussian, weights=[0.0] * 4)"),
    ("a negative weight", "optimize(numbers, gaussian, weights=[1.0, -1.0, 1.0, 1.0])"),
    ("an unknown backend", "encoded_data(numbers, gaussian, backend='locl')"),
    ("a control that a backend does not take", "encoded_data(numbers, gaussian, num_workers=3)"),
    ("two ways to cut the rows", "encoded_data(numbers, gaussian, num_shards=2, num_chunks=2)"),
    ("another cut of encoded rows", "optimize(None, gaussian, enc_data=handle, sub_chunks=2)"),
    ("rng and seed", "optimize(numbers, gaussian, rng=1, seed=1)"),
    ("a delta of zero", "optimize(numbers, gaussian, delta=0)"),
    ("a closed pool", "closed.pysp_seq_log_density_sum(model)"),
    ("a handle in a pickle", "pickle.dumps(handle)"),
    ("a pool in a fork", "in_a_fork(lambda: handle.pysp_seq_log_density_sum(model))"),
    ("rows that cannot be sent to a pool", "encoded_data([Lock()], CategoricalEstimator(), backend='mp')"),
]  # fmt: skip


def arguments(cls):
    """Return the arguments of a constructor as they stand in its signature, without those every class has."""
    found = inspect.signature(cls).parameters.values()
    return ", ".join(f"`{p.name}`" for p in found if p.name not in _EVERYWHERE) or "none"


def families_table():
    lines = ["| family | a row | support | parameters | options of the estimator |", "|---|---|---|---|---|"]
    for family, (row, support, *_) in FAMILIES.items():
        law, estimator = getattr(stats, f"{family}Distribution"), getattr(stats, f"{family}Estimator")
        lines.append(f"| {family} | {row} | {support} | {arguments(law)} | {arguments(estimator)} |")
    return "\n".join(lines) + "\n"


def refusal(line, names):
    """Return the exception that a line raises."""
    try:
        exec(line, names)
    except Exception as error:  # noqa: BLE001 - the page tells which
        return error
    raise AssertionError(f"not refused: {line}")


def kind_of(error):
    """Return the builtin exceptions by which an error can be caught."""
    builtin = (ImportError, RuntimeError, TypeError, ValueError)
    return " and ".join(c.__name__ for c in builtin if isinstance(error, c))


def told(error):
    """Return the first line of a message, without what differs from machine to machine."""
    line = str(error).splitlines()[0].replace("|", "\\|")
    return re.sub(r"(?<=Usable here: ).*", "…", re.sub(r"process \d+", "process 1234", line))


def errors_table():
    names = {name: getattr(stats, name) for name in stats.__all__} | NAMES
    pool = {"backend": "mp", "num_workers": 2}
    closed = encoded_data(names["numbers"], names["gaussian"], **pool)
    lines = ["| situation | the line | what it raises | message |", "|---|---|---|---|"]
    with encoded_data(names["numbers"], names["gaussian"], **pool) as handle:
        closed.close()
        names |= {
            "handle": handle, "closed": closed, "in_a_fork": in_a_fork, "model": stats.GaussianDistribution(0.0, 1.0),
        }  # fmt: skip
        for situation, line in ERRORS:
            error = refusal(line, names)
            assert kind_of(error), f"{line}: {error!r}"
            lines.append(f"| {situation} | `{line}` | {kind_of(error)} | {told(error)} |")
    return "\n".join(lines) + "\n"


def parts(text):
    """Return what stands before the table of a page, the table, and what follows it."""
    before, _, rest = text.partition(MARKS[0])
    table, _, after = rest.partition(MARKS[1])
    return before + MARKS[0], table, MARKS[1] + after


TABLES = {"families.md": families_table, "errors.md": errors_table}

if __name__ == "__main__":
    for name, table in TABLES.items():
        page = PAGES / name
        before, _, after = parts(page.read_text(encoding="utf-8"))
        page.write_text(before + table() + after, encoding="utf-8")
