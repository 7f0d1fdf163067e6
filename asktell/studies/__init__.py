"""Studies: a selection that outlives its processes.

| module     | what it has                                                                                            |
|------------|--------------------------------------------------------------------------------------------------------|
| `leases`   | who holds which trial, and until when: a value, folded from the log                                    |
| `log`      | the log's entries as lines of JSON, and back                                                           |
| `snapshots`| a state as bytes, so that opening it need not fold the whole log                                       |
| `logged`   | a selector whose every change is noted as entries of a log                                             |
| `replica`  | a log in a storage, and this process's copy of what follows from it                                    |
| `export`   | a whole study as a file of JSON lines                                                                  |
| `evaluations` | every evaluation in the order in which it was told, with its details                               |
| `growing`  | how a study goes on: prompts join or are retired, budgets grow                                         |
| `telling`  | how it is told: scores, those from elsewhere, failures                                                 |
| `worker`   | one worker of a study, with its leases and their heartbeat                                             |
| `study`    | `Study`: what users hold                                                                               |
"""
