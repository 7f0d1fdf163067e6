"""The model of all prompts: posteriors, statements about the answer, and the choice of cells."""
