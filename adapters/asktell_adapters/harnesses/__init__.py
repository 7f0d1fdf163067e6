"""Evaluation harnesses that asktell drives, a file each. Importing one imports no harness."""
