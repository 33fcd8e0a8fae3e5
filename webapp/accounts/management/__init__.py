"""Commands on accounts."""
