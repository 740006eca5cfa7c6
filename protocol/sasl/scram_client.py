"""The client's side of a SCRAM exchange, from bytes to bytes.

client     exchange.first              exchange.final(challenge)
server                     challenge                                end: exchange.believes(end)?
"""

import base64
import hmac

from protocol.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    MalformedScram,
    ScramMechanism,
    client_final,
    client_final_without_proof,
    client_first,
    client_proof,
    conversation_of,
    credential,
    read_server_first,
    salted_password,
    server_final,
    server_signature,
)

NONCE_BYTES = 18
"""What `drawn` is made of."""


class ScramClient:
    """One exchange. `drawn` are random bytes; a server that asks for more than `most_iterations` is not given them."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        name: str,
        password: str,
        drawn: bytes,
        *,
        by_token: bool = False,
        most_iterations: int = MAX_ITERATIONS,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = base64.b64encode(drawn).decode("ascii")
        self._bare = client_first(name, self._nonce, by_token=by_token)
        self._most_iterations = most_iterations
        self._wanted: bytes | None = None
        """What a server says that keeps something of the password."""

    @property
    def first(self) -> bytes:
        return b"n,," + self._bare

    def final(self, challenge: bytes) -> bytes:
        """The answer to a challenge; some milliseconds for thousands of iterations. Raises `MalformedScram`, also for
        a challenge that would give away what the password is: of another exchange, or of too few iterations."""
        nonce, salt, iterations = read_server_first(challenge)
        if not nonce.startswith(self._nonce) or not MIN_ITERATIONS <= iterations <= self._most_iterations:
            raise MalformedScram("its challenge is not to be trusted")
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        without_proof = client_final_without_proof(nonce)
        conversation = conversation_of(self._bare, challenge, without_proof)
        kept = credential(self._mechanism, salted, salt, iterations)
        self._wanted = server_final(server_signature(self._mechanism, kept, conversation))
        return client_final(without_proof, client_proof(self._mechanism, salted, conversation))

    def believes(self, end: bytes) -> bool:
        """Whether who says this in the end knows the password itself."""
        return self._wanted is not None and hmac.compare_digest(end, self._wanted)
