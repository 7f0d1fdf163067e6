"""The documentation site: the pages of docs/ made from the code, and the build of all of them (`make docs`).

| module          | what it does                                                                                |
|-----------------|---------------------------------------------------------------------------------------------|
| `names`         | the public names of the packages, and where each is defined                                 |
| `api`           | `docs/reference/api`: a page for each group of names                                        |
| `command_line`  | `docs/reference/command-line.md`, from the parser                                           |
| `configuration` | the tables of `docs/reference/configuration.md`, from `asktell_adapters.config.described`   |
| `http_api`      | `docs/reference/http-api.md`, from the OpenAPI document                                     |
| `pages`         | writes these four (`make pages`); they are kept in git, so that any host shows them         |
| `links`         | the links of a Markdown page, and which of them lead nowhere                                |
| `navigation`    | the order of the pages, as the README of each folder lists them                             |
| `notebooks`     | a tutorial as a notebook                                                                    |
| `staging`       | docs/ as the generator takes it                                                             |
| `checks`        | what must hold of the built site                                                            |
| `build`         | all of it: `python -m website.build`; needs requirements/docs.txt and none of asktell's own  |
"""
