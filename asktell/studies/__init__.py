"""Studies: a selection that outlives its processes.

| module        | content                                                                                    |
|---------------|--------------------------------------------------------------------------------------------|
| `study`       | `Study`: what users hold                                                                   |
| `base`        | `AbstractStudy`: what a `Study` and a `RemoteStudy` have in common                         |
| `worker`      | `Worker`: one worker of a study, with its leases and their heartbeat                       |
| `replica`     | a log in a storage, and this process's copy of what follows from it                        |
| `log`         | the log's entries as lines of JSON, a selector that follows them, and the evaluations      |
| `leases`      | who holds which trial, and until when: a value, folded from the log                        |
| `snapshots`   | a state as bytes, so that opening a study need not fold the whole log                      |
| `details`     | what is kept beside the scores of a trial, as JSON                                         |
| `export`      | a whole study as a file of JSON lines                                                      |
| `watching`    | workers and their pace, for pages that poll                                                |
"""
