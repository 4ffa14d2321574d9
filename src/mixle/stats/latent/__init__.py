"""Models with latent structure: mixtures."""
