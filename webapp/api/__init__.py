"""What a script sees: REST under /api/v1, described by OpenAPI."""
