"""The method `auto`: `Adaptive`, and what it believes about the prompts."""
