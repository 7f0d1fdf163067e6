"""Scripts whose numbers the docs quote, a folder for each question; run one as `python -m benchmarks.FOLDER.NAME`.

| folder       | its question                                                                        |
|--------------|-------------------------------------------------------------------------------------|
| `selection`  | how good are the answers: methods, budgets, calibration, the headline               |
| `durability` | is anything lost: crashes, many processes, malformed input                          |
| `attack`     | what can somebody do to it: plays of every operation, liars, strangers              |
| `speed`      | what does it cost: latency, throughput, studies, the service                        |
| `docs`       | what the docs show: the demo, the generated parts of pages                          |
| `problems`   | tables to select from, recorded and synthetic                                       |
| `rivals`     | other people's methods                                                              |
"""
