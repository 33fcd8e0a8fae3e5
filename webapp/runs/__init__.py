"""Runs: their states, their attempts, their timeline."""
