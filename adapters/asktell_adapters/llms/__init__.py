"""LLMs behind one interface: hosted APIs, and models on this machine. `asktell_adapters.evaluators` has their names."""
