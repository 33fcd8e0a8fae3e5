"""What a run measured: scalars, router load, log lines, and how far its files were read."""
