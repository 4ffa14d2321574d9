"""The base classes that a model family of your own is made of.

A family is a distribution with its sampler and encoder, an estimator, and an accumulator with its factory. This module
gathers their base classes; `mixle.stats.register_model` lets JSON find a class of your own.
"""

from __future__ import annotations

from mixle._facade import publish
from mixle.errors import ContractError, EnumerationError, KeyValidationError, UnscorableObservation
from mixle.stats.contract import (
    ConditionalSampler,
    DataSequenceEncoder,
    DistributionSampler,
    ParameterEstimator,
    ProbabilityDistribution,
    SequenceEncodableProbabilityDistribution,
    SequenceEncodableStatisticAccumulator,
    StatisticAccumulator,
    StatisticAccumulatorFactory,
)
from mixle.stats.enumeration import NucleusResult
from mixle.stats.keys import validate_estimator_keys
from mixle.stats.sums import scale_suff_stat

__all__ = [
    "ConditionalSampler",
    "ContractError",
    "DataSequenceEncoder",
    "DistributionSampler",
    "EnumerationError",
    "KeyValidationError",
    "NucleusResult",
    "ParameterEstimator",
    "ProbabilityDistribution",
    "SequenceEncodableProbabilityDistribution",
    "SequenceEncodableStatisticAccumulator",
    "StatisticAccumulator",
    "StatisticAccumulatorFactory",
    "UnscorableObservation",
    "scale_suff_stat",
    "validate_estimator_keys",
]

publish(
    __name__,
    ConditionalSampler,
    DataSequenceEncoder,
    DistributionSampler,
    ParameterEstimator,
    ProbabilityDistribution,
    SequenceEncodableProbabilityDistribution,
    SequenceEncodableStatisticAccumulator,
    StatisticAccumulator,
    StatisticAccumulatorFactory,
)
