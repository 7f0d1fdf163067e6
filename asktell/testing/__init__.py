"""For whoever writes an evaluator, a storage or an adapter: contracts to derive tests from, fakes, servers.

The contracts need pytest. docs/how-to/bring-your-own.md uses them.
"""
