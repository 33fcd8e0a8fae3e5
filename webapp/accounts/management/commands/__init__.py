"""Commands on accounts, one a file."""
