"""Mixtures and hidden Markov models in pipelines, grid searches and wherever else scikit-learn's estimators go."""

from __future__ import annotations

from mixle._facade import publish
from mixle.errors import MissingPackage

try:
    import sklearn  # noqa: F401 - the package must be there
except ImportError:
    raise MissingPackage("mixle.sklearn needs scikit-learn. Install: pip install 'mixle[sklearn]'") from None

from mixle.sklearn.hidden_markov import HiddenMarkovModel
from mixle.sklearn.mixture import MixtureModel

__all__ = ["HiddenMarkovModel", "MixtureModel"]

publish(__name__, HiddenMarkovModel, MixtureModel)
