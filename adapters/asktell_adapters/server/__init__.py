"""The server of `asktell serve`: studies over HTTP, for `RemoteStudy` and other clients, and pages for browsers.

`process` needs `asktell[server]`. `watching`, the data of a live page, needs no package.
"""
