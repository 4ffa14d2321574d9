"""Probability models and their estimators: families, combinators, mixtures, and the functions over encoded rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixle.stats.combinators.censored import CensoredDistribution, CensoredEstimator
    from mixle.stats.combinators.censored_rows import CensoredInterval
    from mixle.stats.combinators.composite import CompositeDistribution, CompositeEstimator
    from mixle.stats.combinators.conditional import ConditionalDistribution, ConditionalEstimator

    ConditionalDistributionEstimator = ConditionalEstimator
    from mixle.stats.combinators.dispatch import TypeDispatch
    from mixle.stats.combinators.hurdle import HurdleDistribution, HurdleEstimator
    from mixle.stats.combinators.ignored import IgnoredDistribution, IgnoredEstimator
    from mixle.stats.combinators.null import NullDistribution, NullEstimator
    from mixle.stats.combinators.optional import OptionalDistribution, OptionalEstimator
    from mixle.stats.combinators.record import RecordDistribution, RecordEstimator
    from mixle.stats.combinators.select import SelectDistribution, SelectEstimator
    from mixle.stats.combinators.sequence import SequenceDistribution, SequenceEstimator
    from mixle.stats.combinators.transform import TransformDistribution, TransformEstimator
    from mixle.stats.combinators.transforms import (
        AffineTransform,
        ExpTransform,
        FunctionTransform,
        IdentityTransform,
        LogitTransform,
        LogTransform,
        PowerTransform,
        Transform,
    )
    from mixle.stats.combinators.truncated import TruncatedDistribution, TruncatedEstimator
    from mixle.stats.combinators.weighted import WeightedDistribution, WeightedEstimator, WeightedObservation
    from mixle.stats.combinators.zero_inflated import ZeroInflatedDistribution, ZeroInflatedEstimator
    from mixle.stats.encoded import (
        EncodedData,
        ResidentEncodedPayload,
        as_encoded_data,
        encoded_nbytes,
        move_encoded_payload,
    )
    from mixle.stats.families.bernoulli import BernoulliDistribution, BernoulliEstimator
    from mixle.stats.families.bernoulli_set import BernoulliSetDistribution, BernoulliSetEstimator
    from mixle.stats.families.beta import BetaDistribution, BetaEstimator
    from mixle.stats.families.binomial import BinomialDistribution, BinomialEstimator
    from mixle.stats.families.categorical import CategoricalDistribution, CategoricalEstimator
    from mixle.stats.families.diagonal_gaussian import DiagonalGaussianDistribution, DiagonalGaussianEstimator
    from mixle.stats.families.dirichlet import DirichletDistribution, DirichletEstimator
    from mixle.stats.families.dirichlet_multinomial import (
        DirichletMultinomialDistribution,
        DirichletMultinomialEstimator,
    )
    from mixle.stats.families.exponential import ExponentialDistribution, ExponentialEstimator
    from mixle.stats.families.gamma import GammaDistribution, GammaEstimator
    from mixle.stats.families.gaussian import GaussianDistribution, GaussianEstimator
    from mixle.stats.families.geometric import GeometricDistribution, GeometricEstimator
    from mixle.stats.families.gumbel import GumbelDistribution, GumbelEstimator
    from mixle.stats.families.half_normal import HalfNormalDistribution, HalfNormalEstimator
    from mixle.stats.families.integer_bernoulli_set import IntegerBernoulliSetDistribution, IntegerBernoulliSetEstimator
    from mixle.stats.families.integer_categorical import IntegerCategoricalDistribution, IntegerCategoricalEstimator
    from mixle.stats.families.integer_multinomial import IntegerMultinomialDistribution, IntegerMultinomialEstimator
    from mixle.stats.families.inverse_gamma import InverseGammaDistribution, InverseGammaEstimator
    from mixle.stats.families.inverse_gaussian import InverseGaussianDistribution, InverseGaussianEstimator
    from mixle.stats.families.laplace import LaplaceDistribution, LaplaceEstimator
    from mixle.stats.families.log_gaussian import LogGaussianDistribution, LogGaussianEstimator
    from mixle.stats.families.logistic import LogisticDistribution, LogisticEstimator
    from mixle.stats.families.multinomial import MultinomialDistribution, MultinomialEstimator
    from mixle.stats.families.multivariate_gaussian import (
        MultivariateGaussianDistribution,
        MultivariateGaussianEstimator,
    )
    from mixle.stats.families.multivariate_student_t import (
        MultivariateStudentTDistribution,
        MultivariateStudentTEstimator,
    )
    from mixle.stats.families.negative_binomial import NegativeBinomialDistribution, NegativeBinomialEstimator
    from mixle.stats.families.pareto import ParetoDistribution, ParetoEstimator
    from mixle.stats.families.point_mass import PointMassDistribution, PointMassEstimator
    from mixle.stats.families.poisson import PoissonDistribution, PoissonEstimator
    from mixle.stats.families.rayleigh import RayleighDistribution, RayleighEstimator
    from mixle.stats.families.skew_normal import SkewNormalDistribution, SkewNormalEstimator
    from mixle.stats.families.student_t import StudentTDistribution, StudentTEstimator
    from mixle.stats.families.uniform import UniformDistribution, UniformEstimator
    from mixle.stats.families.von_mises import VonMisesDistribution, VonMisesEstimator
    from mixle.stats.families.von_mises_fisher import VonMisesFisherDistribution, VonMisesFisherEstimator
    from mixle.stats.families.weibull import WeibullDistribution, WeibullEstimator
    from mixle.stats.functions import density, log_density, sample, seq_encode, seq_log_density, seq_log_density_sum
    from mixle.stats.keys import KeyValidationError, validate_estimator_keys
    from mixle.stats.latent.gaussian_mixture import GaussianMixtureDistribution, GaussianMixtureEstimator
    from mixle.stats.latent.heterogeneous_mixture import HeterogeneousMixtureDistribution, HeterogeneousMixtureEstimator
    from mixle.stats.latent.hierarchical_estimator import HierarchicalMixtureEstimator
    from mixle.stats.latent.hierarchical_mixture import HierarchicalMixtureDistribution
    from mixle.stats.latent.hmm import HiddenMarkovModelDistribution
    from mixle.stats.latent.hmm_estimator import HiddenMarkovEstimator, HiddenMarkovModelEstimator
    from mixle.stats.latent.joint_mixture import JointMixtureDistribution
    from mixle.stats.latent.joint_mixture_estimator import JointMixtureEstimator
    from mixle.stats.latent.lda import LDADistribution
    from mixle.stats.latent.lda_estimator import LDAEstimator
    from mixle.stats.latent.mixture import MixtureDistribution, MixtureEstimator
    from mixle.stats.latent.probabilistic_pca import ProbabilisticPCADistribution, ProbabilisticPCAEstimator
    from mixle.stats.latent.semi_supervised import SemiSupervisedMixtureDistribution, SemiSupervisedMixtureEstimator
    from mixle.stats.parameter_laws import (
        DictDirichletDistribution,
        NormalGammaDistribution,
        NormalInverseWishartDistribution,
        NormalWishartDistribution,
        SymmetricDirichletDistribution,
    )
    from mixle.stats.sequences.integer_markov_chain import IntegerMarkovChainDistribution, IntegerMarkovChainEstimator
    from mixle.stats.sequences.markov_chain import MarkovChainDistribution, MarkovChainEstimator
    from mixle.stats.serialize import register_function, register_model
    from mixle.stats.sums import scale_suff_stat

__all__ = [
    "AffineTransform",
    "BernoulliDistribution",
    "BernoulliEstimator",
    "BernoulliSetDistribution",
    "BernoulliSetEstimator",
    "BetaDistribution",
    "BetaEstimator",
    "BinomialDistribution",
    "BinomialEstimator",
    "CategoricalDistribution",
    "CategoricalEstimator",
    "CensoredDistribution",
    "CensoredEstimator",
    "CensoredInterval",
    "CompositeDistribution",
    "CompositeEstimator",
    "ConditionalDistribution",
    "ConditionalDistributionEstimator",
    "ConditionalEstimator",
    "DiagonalGaussianDistribution",
    "DiagonalGaussianEstimator",
    "DictDirichletDistribution",
    "DirichletDistribution",
    "DirichletEstimator",
    "DirichletMultinomialDistribution",
    "DirichletMultinomialEstimator",
    "EncodedData",
    "ExpTransform",
    "ExponentialDistribution",
    "ExponentialEstimator",
    "FunctionTransform",
    "GammaDistribution",
    "GammaEstimator",
    "GaussianDistribution",
    "GaussianEstimator",
    "GaussianMixtureDistribution",
    "GaussianMixtureEstimator",
    "GeometricDistribution",
    "GeometricEstimator",
    "GumbelDistribution",
    "GumbelEstimator",
    "HalfNormalDistribution",
    "HalfNormalEstimator",
    "HeterogeneousMixtureDistribution",
    "HeterogeneousMixtureEstimator",
    "HiddenMarkovEstimator",
    "HiddenMarkovModelDistribution",
    "HiddenMarkovModelEstimator",
    "HierarchicalMixtureDistribution",
    "HierarchicalMixtureEstimator",
    "HurdleDistribution",
    "HurdleEstimator",
    "IdentityTransform",
    "IgnoredDistribution",
    "IgnoredEstimator",
    "IntegerBernoulliSetDistribution",
    "IntegerBernoulliSetEstimator",
    "IntegerCategoricalDistribution",
    "IntegerCategoricalEstimator",
    "IntegerMarkovChainDistribution",
    "IntegerMarkovChainEstimator",
    "IntegerMultinomialDistribution",
    "IntegerMultinomialEstimator",
    "InverseGammaDistribution",
    "InverseGammaEstimator",
    "InverseGaussianDistribution",
    "InverseGaussianEstimator",
    "JointMixtureDistribution",
    "JointMixtureEstimator",
    "KeyValidationError",
    "LDADistribution",
    "LDAEstimator",
    "LaplaceDistribution",
    "LaplaceEstimator",
    "LogGaussianDistribution",
    "LogGaussianEstimator",
    "LogTransform",
    "LogisticDistribution",
    "LogisticEstimator",
    "LogitTransform",
    "MarkovChainDistribution",
    "MarkovChainEstimator",
    "MixtureDistribution",
    "MixtureEstimator",
    "MultinomialDistribution",
    "MultinomialEstimator",
    "MultivariateGaussianDistribution",
    "MultivariateGaussianEstimator",
    "MultivariateStudentTDistribution",
    "MultivariateStudentTEstimator",
    "NegativeBinomialDistribution",
    "NegativeBinomialEstimator",
    "NormalGammaDistribution",
    "NormalInverseWishartDistribution",
    "NormalWishartDistribution",
    "NullDistribution",
    "NullEstimator",
    "OptionalDistribution",
    "OptionalEstimator",
    "ParetoDistribution",
    "ParetoEstimator",
    "PointMassDistribution",
    "PointMassEstimator",
    "PoissonDistribution",
    "PoissonEstimator",
    "PowerTransform",
    "ProbabilisticPCADistribution",
    "ProbabilisticPCAEstimator",
    "RayleighDistribution",
    "RayleighEstimator",
    "RecordDistribution",
    "RecordEstimator",
    "ResidentEncodedPayload",
    "SelectDistribution",
    "SelectEstimator",
    "SemiSupervisedMixtureDistribution",
    "SemiSupervisedMixtureEstimator",
    "SequenceDistribution",
    "SequenceEstimator",
    "SkewNormalDistribution",
    "SkewNormalEstimator",
    "StudentTDistribution",
    "StudentTEstimator",
    "SymmetricDirichletDistribution",
    "Transform",
    "TransformDistribution",
    "TransformEstimator",
    "TruncatedDistribution",
    "TruncatedEstimator",
    "TypeDispatch",
    "UniformDistribution",
    "UniformEstimator",
    "VonMisesDistribution",
    "VonMisesEstimator",
    "VonMisesFisherDistribution",
    "VonMisesFisherEstimator",
    "WeibullDistribution",
    "WeibullEstimator",
    "WeightedDistribution",
    "WeightedEstimator",
    "WeightedObservation",
    "ZeroInflatedDistribution",
    "ZeroInflatedEstimator",
    "as_encoded_data",
    "density",
    "encoded_nbytes",
    "log_density",
    "move_encoded_payload",
    "register_function",
    "register_model",
    "sample",
    "scale_suff_stat",
    "seq_encode",
    "seq_log_density",
    "seq_log_density_sum",
    "validate_estimator_keys",
]

#: Where each name is defined; a module is loaded when one of its names is first used.
_HOMES = {
    "combinators.censored_rows": ("CensoredInterval",),
    "combinators.censored": ("CensoredDistribution", "CensoredEstimator"),
    "combinators.truncated": ("TruncatedDistribution", "TruncatedEstimator"),
    "combinators.transforms": (
        "AffineTransform",
        "ExpTransform",
        "FunctionTransform",
        "IdentityTransform",
        "LogTransform",
        "LogitTransform",
        "PowerTransform",
        "Transform",
    ),
    "combinators.transform": ("TransformDistribution", "TransformEstimator"),
    "combinators.composite": ("CompositeDistribution", "CompositeEstimator"),
    "combinators.conditional": ("ConditionalDistribution", "ConditionalDistributionEstimator", "ConditionalEstimator"),
    "combinators.dispatch": ("TypeDispatch",),
    "combinators.hurdle": ("HurdleDistribution", "HurdleEstimator"),
    "combinators.ignored": ("IgnoredDistribution", "IgnoredEstimator"),
    "combinators.null": ("NullDistribution", "NullEstimator"),
    "combinators.optional": ("OptionalDistribution", "OptionalEstimator"),
    "combinators.record": ("RecordDistribution", "RecordEstimator"),
    "combinators.select": ("SelectDistribution", "SelectEstimator"),
    "combinators.sequence": ("SequenceDistribution", "SequenceEstimator"),
    "combinators.weighted": ("WeightedDistribution", "WeightedEstimator", "WeightedObservation"),
    "combinators.zero_inflated": ("ZeroInflatedDistribution", "ZeroInflatedEstimator"),
    "families.bernoulli": ("BernoulliDistribution", "BernoulliEstimator"),
    "families.bernoulli_set": ("BernoulliSetDistribution", "BernoulliSetEstimator"),
    "families.beta": ("BetaDistribution", "BetaEstimator"),
    "families.binomial": ("BinomialDistribution", "BinomialEstimator"),
    "families.categorical": ("CategoricalDistribution", "CategoricalEstimator"),
    "families.diagonal_gaussian": ("DiagonalGaussianDistribution", "DiagonalGaussianEstimator"),
    "families.dirichlet": ("DirichletDistribution", "DirichletEstimator"),
    "families.dirichlet_multinomial": ("DirichletMultinomialDistribution", "DirichletMultinomialEstimator"),
    "families.exponential": ("ExponentialDistribution", "ExponentialEstimator"),
    "families.gamma": ("GammaDistribution", "GammaEstimator"),
    "families.gaussian": ("GaussianDistribution", "GaussianEstimator"),
    "families.geometric": ("GeometricDistribution", "GeometricEstimator"),
    "families.gumbel": ("GumbelDistribution", "GumbelEstimator"),
    "families.half_normal": ("HalfNormalDistribution", "HalfNormalEstimator"),
    "families.integer_bernoulli_set": ("IntegerBernoulliSetDistribution", "IntegerBernoulliSetEstimator"),
    "families.integer_categorical": ("IntegerCategoricalDistribution", "IntegerCategoricalEstimator"),
    "families.integer_multinomial": ("IntegerMultinomialDistribution", "IntegerMultinomialEstimator"),
    "families.inverse_gamma": ("InverseGammaDistribution", "InverseGammaEstimator"),
    "families.inverse_gaussian": ("InverseGaussianDistribution", "InverseGaussianEstimator"),
    "families.laplace": ("LaplaceDistribution", "LaplaceEstimator"),
    "families.log_gaussian": ("LogGaussianDistribution", "LogGaussianEstimator"),
    "families.logistic": ("LogisticDistribution", "LogisticEstimator"),
    "families.multinomial": ("MultinomialDistribution", "MultinomialEstimator"),
    "families.multivariate_gaussian": ("MultivariateGaussianDistribution", "MultivariateGaussianEstimator"),
    "families.multivariate_student_t": ("MultivariateStudentTDistribution", "MultivariateStudentTEstimator"),
    "families.negative_binomial": ("NegativeBinomialDistribution", "NegativeBinomialEstimator"),
    "families.pareto": ("ParetoDistribution", "ParetoEstimator"),
    "families.point_mass": ("PointMassDistribution", "PointMassEstimator"),
    "families.poisson": ("PoissonDistribution", "PoissonEstimator"),
    "families.rayleigh": ("RayleighDistribution", "RayleighEstimator"),
    "families.skew_normal": ("SkewNormalDistribution", "SkewNormalEstimator"),
    "families.student_t": ("StudentTDistribution", "StudentTEstimator"),
    "families.uniform": ("UniformDistribution", "UniformEstimator"),
    "families.von_mises": ("VonMisesDistribution", "VonMisesEstimator"),
    "families.von_mises_fisher": ("VonMisesFisherDistribution", "VonMisesFisherEstimator"),
    "families.weibull": ("WeibullDistribution", "WeibullEstimator"),
    "encoded": (
        *("EncodedData", "ResidentEncodedPayload", "as_encoded_data", "encoded_nbytes", "move_encoded_payload"),
    ),
    "functions": ("density", "log_density", "sample", "seq_encode", "seq_log_density", "seq_log_density_sum"),
    "keys": ("KeyValidationError", "validate_estimator_keys"),
    "latent.gaussian_mixture": ("GaussianMixtureDistribution", "GaussianMixtureEstimator"),
    "latent.heterogeneous_mixture": ("HeterogeneousMixtureDistribution", "HeterogeneousMixtureEstimator"),
    "latent.hierarchical_estimator": ("HierarchicalMixtureEstimator",),
    "latent.hierarchical_mixture": ("HierarchicalMixtureDistribution",),
    "latent.lda": ("LDADistribution",),
    "latent.lda_estimator": ("LDAEstimator",),
    "latent.hmm": ("HiddenMarkovModelDistribution",),
    "latent.hmm_estimator": ("HiddenMarkovEstimator", "HiddenMarkovModelEstimator"),
    "latent.joint_mixture": ("JointMixtureDistribution",),
    "latent.joint_mixture_estimator": ("JointMixtureEstimator",),
    "latent.mixture": ("MixtureDistribution", "MixtureEstimator"),
    "latent.probabilistic_pca": ("ProbabilisticPCADistribution", "ProbabilisticPCAEstimator"),
    "latent.semi_supervised": ("SemiSupervisedMixtureDistribution", "SemiSupervisedMixtureEstimator"),
    "parameter_laws": (
        "DictDirichletDistribution",
        "NormalGammaDistribution",
        "NormalInverseWishartDistribution",
        "NormalWishartDistribution",
        "SymmetricDirichletDistribution",
    ),
    "sequences.integer_markov_chain": ("IntegerMarkovChainDistribution", "IntegerMarkovChainEstimator"),
    "sequences.markov_chain": ("MarkovChainDistribution", "MarkovChainEstimator"),
    "serialize": ("register_function", "register_model"),
    "sums": ("scale_suff_stat",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
#: Beside `__all__` there are the statistics that ``value()`` returns, and the errors of `mixle.errors`.
_ROUTED = ("Conditional", "ConditionalBranch", "Select", "Sequence", "Transform", "Truncated", "Weighted")
_HOME_OF |= {f"{name}Statistics": f"combinators.{name.removesuffix('Branch').lower()}" for name in _ROUTED}
_HOME_OF |= {"MarkovChainStatistics": "sequences.markov_chain"}
_HOME_OF |= {"IntegerMarkovChainStatistics": "sequences.integer_markov_chain"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = import_module(f"mixle.stats.{_HOME_OF[name]}" if name in _HOME_OF else "mixle.errors")
    value = getattr(home, name, None)
    if not isinstance(value, type) and name not in _HOME_OF:
        raise AttributeError(f"module 'mixle.stats' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
