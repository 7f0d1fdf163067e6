"""Who may do what: two bearer tokens, from the environment."""

import hmac
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from asktell.errors import InvalidArgumentError

WRITE, READ = "ASKTELL_TOKEN", "ASKTELL_READ_TOKEN"
_SHORTEST = 16


class Role(Enum):
    """What a request may do."""

    NOTHING = "nothing"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Tokens:
    """The tokens that a service knows. Without any, everybody may do everything.

    Raises:
        InvalidArgumentError: a token is too short, has characters that no header can hold, or both are the same.
    """

    write: str | None = field(default=None, repr=False)
    read: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be a secret."""
        for name, token in ((WRITE, self.write), (READ, self.read)):
            if token is not None and not re.fullmatch(rf"[A-Za-z0-9._~+/=-]{{{_SHORTEST},}}", token):
                raise InvalidArgumentError(
                    f"{name} must be at least {_SHORTEST} letters, digits or any of ._~+/=- (its length is "
                    f"{len(token)}). For a new one: python -c 'import secrets; print(secrets.token_urlsafe())'"
                )
        if self.write is not None and self.write == self.read:
            raise InvalidArgumentError(f"{WRITE} and {READ} are the same token; give each its own.")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Tokens":
        """The tokens in ASKTELL_TOKEN and ASKTELL_READ_TOKEN."""
        return cls(environment.get(WRITE), environment.get(READ))

    def __bool__(self) -> bool:
        return self.write is not None or self.read is not None

    def role(self, authorization: str | None) -> Role:
        """What the bearer of an Authorization header may do. The time it takes tells nothing about the tokens."""
        if not self:
            return Role.WRITE
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            return Role.NOTHING
        sent = given.strip().encode("utf-8", "surrogatepass")
        writes, reads = (
            token is not None and hmac.compare_digest(sent, token.encode("ascii")) for token in (self.write, self.read)
        )
        return Role.WRITE if writes else Role.READ if reads else Role.NOTHING


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own, which no other machine reaches."""
    host = host.strip("[]").lower()
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
