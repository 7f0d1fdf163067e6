"""What a selection says: the answer, its certainty, pictures."""
