"""Who else trains: ranks, groups and devices."""
