"""A fenced producer writes nothing any more (I11)."""

from collections.abc import Iterator

from tests.simulation.history import Claim, History


def fenced(history: History) -> Iterator[str]:
    """A record first sent after a newer claim of its transactional id was answered is neither acknowledged nor
    visible. Of one id, a greater (producer id, epoch) is a newer one, where one node hands them out."""
    visible = {number for final in history.final.values() for _, number in final.committed}
    claims: dict[str, list[Claim]] = {}
    for claim in history.claims:
        claims.setdefault(claim.transactional_id, []).append(claim)
    for transaction in history.transactions:
        for write in transaction.writes:
            for claim in claims.get(transaction.transactional_id, ()):
                newer = (claim.producer_id, claim.producer_epoch) > (write.producer_id, write.producer_epoch)
                if claim.producer_id != write.producer_id and not history.ids_grow:
                    newer = False
                if newer and claim.time < write.sent_at and (write.acked or write.number in visible):
                    yield (
                        f"record {write.number} of {write.client}, epoch {write.producer_epoch}, though"
                        f" {claim.transactional_id} was claimed with epoch {claim.producer_epoch} before it was sent"
                    )
                    break
