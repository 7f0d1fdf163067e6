"""Requests by which a stranger, or who may only read, tries to get what is not theirs. Each must be refused."""

from collections.abc import Sequence

OPEN = ("/health", "/openapi.json")
_ASK = "/v1/studies/study/ask"
_RIGHT = "write-token-0123456789"  # of which the strangers' tokens are almost-copies


def request(
    method: str, path: str, *headers: str, body: bytes = b"", host: str = "localhost"
) -> bytes:
    """As it is sent."""
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {host}",
        "Connection: close",
        *headers,
    ]
    if body:
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


_PATHS = [
    "/metrics",
    "/v1/studies",
    "/v1/studies/study",
    "/v1/studies/study/selector",
    "/v1/studies/study/export",
    "/health/../v1/studies",
    "/health/..%2fv1%2fstudies",
    "/health%2f..%2f..%2fmetrics",
    "/health;/../metrics",
    "/health/",
    "/health%00",
    "/HEALTH",
    "//health",
    "//v1/studies",
    "/./v1/studies",
    "/v1//studies",
    "/v1/studies/?x=/health",
    "/v1/studies?token=" + _RIGHT,
    "/v1/studies#/health",
    "/openapi.json/../metrics",
    "/openapi.json%20",
    "/docs",
    "/redoc",
    "http://localhost/v1/studies",
    "*",
]
_METHODS = [
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "FOO",
]
_TOKENS = [
    "",
    "Bearer",
    "Bearer ",
    "Bearer null",
    f"Bearer {_RIGHT[:-1]}",
    f"Bearer {_RIGHT}x",
    f"Bearer {_RIGHT.upper()}",
    f"Basic {_RIGHT}",
    _RIGHT,
    f"Bearer x {_RIGHT}",
    f"Bearer {_RIGHT},{_RIGHT}",
    f"Bearer\x00{_RIGHT}",
    f"Bearer {_RIGHT}\x00",
    f"Bearer \xe9{_RIGHT}",
    "Bearer " + "x" * 50_000,
]
_HEADERS = [
    "X-Original-URL: /health",
    "X-Rewrite-URL: /health",
    "X-HTTP-Method-Override: GET",
    "X-Forwarded-For: 127.0.0.1",
    "Forwarded: for=127.0.0.1",
    "X-Forwarded-Host: localhost",
    "X-Authorization: Bearer " + _RIGHT,
    "Cookie: token=" + _RIGHT,
    "Origin: null",
    "Origin: http://localhost",
    "Idempotency-Key: x",
    "Expect: 100-continue",
    "Upgrade: websocket",
    "Upgrade: h2c",
]
_JSON = b'{"n":1}'
_SECOND = request("POST", _ASK, body=_JSON)
_SMUGGLED = [
    f"POST {_ASK} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n".encode() + body
    for headers, body in (
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + _SECOND),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            b"0\r\n\r\n" + _SECOND,
        ),
        ("Transfer-Encoding: xchunked\r\nContent-Length: 0", _SECOND),
        ("Transfer-Encoding : chunked", b"0\r\n\r\n" + _SECOND),
        ("Transfer-Encoding:\x0bchunked", b"0\r\n\r\n" + _SECOND),
        ("Content-Length: 0\r\nContent-Length: 100", _SECOND),
        ("Content-Length: +7", _JSON),
        ("Content-Length: 0x7", _JSON),
        ("Content-Length: -1", _JSON),
        ("Content-Length: 7, 7", _JSON),
        ("Content-Length: " + "9" * 5000, _JSON),
        ("Transfer-Encoding: chunked", b"fffffffffffffffff\r\n" + _JSON),
        ("Transfer-Encoding: chunked", b"-1\r\n" + _JSON),
        ("Transfer-Encoding: chunked", b"7;" + b"x" * 100_000 + b"\r\n" + _JSON),
        ("X: y\r\n folded: z", b""),
        ("X" * 100_000, b""),
        ("\r\n".join(f"X{i}: y" for i in range(5000)), b""),
    )
]
_RAW = [
    b"\x16\x03\x01\x02\x00\x01",
    b"\0" * 1000,
    b"GET",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\r\n" * 10_000,
    b"\xff" * 70_000,
]

ATTEMPTS: Sequence[bytes] = [
    *(request("GET", path) for path in _PATHS),
    *(
        request(method, path, body=_JSON)
        for method in _METHODS
        for path in ("/v1/studies", _ASK, "/metrics")
    ),
    *(
        request("POST", _ASK, f"Authorization: {token}", body=_JSON)
        for token in _TOKENS
    ),
    *(request("POST", _ASK, header, body=_JSON) for header in _HEADERS),
    *(request("GET", "/v1/studies", header) for header in _HEADERS),
    *(
        request("GET", "/v1/studies", host=host)
        for host in ("", "evil.example", "127.0.0.1", "[::1]", "x" * 5000)
    ),
    *_SMUGGLED,
    *_RAW,
]
"""By strangers."""


def by_readers(token: str) -> Sequence[bytes]:
    """Changes by who may only read."""
    token, study = f"Authorization: Bearer {token}", "/v1/studies/study"
    changes = [
        ("POST", _ASK),
        ("POST", "/v1/studies"),
        ("PUT", "/v1/studies/x/selector"),
        ("DELETE", study),
    ]
    requests = [
        request(method, path, token, body=_JSON)
        for method, path in [*changes, ("HEAD", _ASK), ("PATCH", study)]
    ]
    return [
        *requests,
        request("GET", _ASK, token, "X-HTTP-Method-Override: POST", body=_JSON),
    ]


_PLAIN = request("POST", _ASK, "Origin: http://evil.example").replace(
    b"\r\n\r\n", b"\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\n" + _JSON
)
WITHOUT_TOKENS: Sequence[bytes] = [
    *(
        request("GET", "/v1/studies", host=host)
        for host in (
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "2130706433x",
            "",
            "0x",
            "[::",
        )
    ),
    *(
        request("GET", "/v1/studies", header)
        for header in (
            "X-Forwarded-For: 203.0.113.5",
            "Forwarded: for=203.0.113.5",
            "X-Real-IP: 203.0.113.5",
            "X-Forwarded-Host: example.org",
            "X-Forwarded-Proto: https",
            "Via: 1.1 proxy",
        )
    ),
    _PLAIN,
    _PLAIN.replace(b"text/plain", b"application/x-www-form-urlencoded"),
    _PLAIN.replace(b"Content-Type: text/plain\r\n", b""),
]
"""To a service without tokens: of other names, forwarded, or sent by a page of another site without being asked."""
