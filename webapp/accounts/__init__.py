"""Who may do what: users, roles, API tokens."""
