"""Commands on the fleet."""
