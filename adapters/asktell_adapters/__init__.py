"""Adapters from asktell to LLMs, metrics and data sets. Importing one imports none of the packages behind it."""
