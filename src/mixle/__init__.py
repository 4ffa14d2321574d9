"""Composable mixtures and hidden Markov models, fitted by EM on one core or many with the same bits."""

__version__ = "1.0.0.dev0"
