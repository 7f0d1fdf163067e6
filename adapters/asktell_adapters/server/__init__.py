"""Studies over HTTP: the service (`asktell serve`) and its client (`asktell.RemoteStudy`).

Nothing here is imported until one of them is used; both need `asktell[server]`.
"""
