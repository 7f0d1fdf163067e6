"""Harbor, which runs agents on Terminal-Bench, SWE-bench and other tasks: its trials, and a program that runs them."""
