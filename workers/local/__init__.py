"""Everything on one machine: embedded servers, the web process and the workers, supervised."""
