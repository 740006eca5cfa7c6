"""What an error of TLS means: whether it passes by itself, and what to do about it if it does not."""

import ssl

from tallystick.client.errors import NotSecured

_PASSING = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""The other side went away in the middle, as a broker does that is stopped."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
_OTHER_NAME = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH."""


def refusal(error: BaseException | None, address: tuple[str, int]) -> NotSecured | None:
    """What an error says of TLS that does not pass by itself; None for everything else."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, _PASSING):
        return None
    where = f"{address[0]}:{address[1]}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return NotSecured(f"the certificate of {where} is not trusted: {error.verify_message}{_advice(error)}")
    reason = error.reason or str(error)
    if reason in _NO_TLS:
        return NotSecured(f"{where} does not speak TLS ({_words(reason)}): see security.protocol")
    if "ALERT" in reason:
        return NotSecured(
            f"{where} refuses this client's TLS: {_words(reason)}. It may want a certificate that it trusts "
            "(ssl.keystore.location or ssl.keystore.key), or other versions or cipher suites"
        )
    return NotSecured(f"TLS with {where} does not come about: {_words(reason)}")


def _advice(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _OTHER_NAME:
        return ". Name the broker as its certificate does, or see ssl.endpoint.identification.algorithm"
    return ". See ssl.truststore.location, and until when the broker's certificate is good"


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
