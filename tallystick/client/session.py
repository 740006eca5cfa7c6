"""Until when a connection that has authenticated is used (KIP-368): a broker ends what outlives its session."""

_USED_OF_ITS_LIFE = 0.85
"""As Java's clients have it, which authenticate anew then; here another connection is opened, and this one is left."""


def session_end_s(began_s: float, lasts_ms: int) -> float | None:
    """On the clock of `began_s`; None where the session does not end."""
    return None if lasts_ms <= 0 else began_s + _USED_OF_ITS_LIFE * lasts_ms / 1000
