"""Adapters to evaluation harnesses and to other people's optimizers, imported one by one."""
