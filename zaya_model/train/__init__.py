"""Training: the state, one step of it, and the loop around."""
