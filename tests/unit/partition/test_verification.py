"""What is remembered between asking the transaction coordinator and appending (KIP-890)."""

from broker.partitions.verification import Verifications


def begin(verifications: Verifications, producer_id: int, epoch: int, sequence: int, now_ms: int = 0) -> None:
    verifications.begin(producer_id, epoch, sequence, supports_epoch_bump=True, now_ms=now_ms)


def lowest(verifications: Verifications, producer_id: int) -> int | None:
    tentative = verifications.tentative(producer_id)
    return None if tentative is None else tentative.lowest_sequence


def test_an_earlier_epoch_bounds_nobody() -> None:
    """A zombie's batch is refused; the first of its successor has a higher sequence all the same."""
    verifications = Verifications()
    begin(verifications, 7, 1, 5)
    begin(verifications, 7, 0, 3)
    assert lowest(verifications, 7) == 5
    begin(verifications, 7, 1, 4)
    assert lowest(verifications, 7) == 4
    begin(verifications, 7, 2, 9)
    assert lowest(verifications, 7) == 9
