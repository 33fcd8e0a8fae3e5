"""The house's own rules."""
