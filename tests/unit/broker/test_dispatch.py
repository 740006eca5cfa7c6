"""What a request counts for while it waits."""

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.dispatch import DECODED_FACTOR, Call

CONNECTION = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)


def test_what_waits_counts_as_what_it_may_weigh_decoded() -> None:
    """A long poll over a hundred thousand partitions is much larger as objects than it was as a frame; the records of
    a Produce stay the bytes they are."""
    catalogue = load_handlers()
    weights = {}
    for key in (0, 1, 11):
        context = RequestContext(CONNECTION, key, catalogue[key].versions.start, 1, None)
        weights[key] = Call(catalogue[key], context, None).weight(1000)
    assert weights == {0: 1000, 1: 1000 * DECODED_FACTOR, 11: 1000 * DECODED_FACTOR}
