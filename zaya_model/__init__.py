"""The trainer of the ZAYA1 Mixture-of-Experts family: usable alone, knows no database and no network."""

__version__ = "0.1.0"
