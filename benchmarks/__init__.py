"""Scripts whose numbers the docs quote; run each as `python -m benchmarks.NAME`."""
