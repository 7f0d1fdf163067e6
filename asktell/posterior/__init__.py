"""What is known about all prompts at once: the model, what it says about the answer, and which cells to look at."""
