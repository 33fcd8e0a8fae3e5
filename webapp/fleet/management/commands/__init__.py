"""Commands on the fleet, one a file."""
