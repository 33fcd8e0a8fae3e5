"""Which checkpoints of a run exist, and what is known of each."""
