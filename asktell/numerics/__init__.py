"""Arrays and their names, seeded randomness, padding, non-dominated points."""
