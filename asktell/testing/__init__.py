"""Test contracts, fakes and servers for authors of an evaluator, a storage or an adapter.

The contracts need pytest. docs/how-to/bring-your-own.md uses them.
"""
