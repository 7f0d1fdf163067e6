"""For whoever writes an evaluator, a storage or an adapter: contracts to derive tests from, fakes, servers.

| module               | what it has                                                                                 |
|----------------------|---------------------------------------------------------------------------------------------|
| `evaluator_contract` | `EvaluatorContract`: what `asktell.run` needs of an evaluator                               |
| `storage_contract`   | `StorageContract`: what a study needs of a storage                                          |
| `fakes`              | `Table`: recorded scores, replayed as an evaluator                                          |
| `postgresql_server`  | `postgresql_server`: a PostgreSQL server of one's own                                       |

The contracts need pytest. docs/how-to/bring-your-own.md uses them.
"""
