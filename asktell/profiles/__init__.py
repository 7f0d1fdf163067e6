"""What earlier studies tell of the examples: how hard each is, how much it divides prompts, and how sure that is."""
