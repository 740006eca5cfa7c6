"""What ShareFetch and ShareAcknowledge need: the group here, topics where they are looked for."""

from collections.abc import Callable
from typing import Any

from broker.api.permissions.need import Call, Guard
from broker.api.permissions.of_groups import GROUP_DENIED
from broker.api.permissions.of_groups import READ as READ_GROUP
from broker.api.permissions.of_records import READ as READ_TOPIC
from protocol.messages.share.acknowledge import ShareAcknowledgeResponse
from protocol.messages.share.fetch import ShareFetchResponse


def _of_group(refused: Callable[[], Any]) -> Guard:
    def answer(call: Call, request: Any) -> Any:
        if request.group_id is None or call.permissions.have(READ_GROUP, request.group_id):
            return call.handled(request)
        return refused()

    return Guard((READ_GROUP, READ_TOPIC), answer, "Topics are asked for anew with each request of a session.")


SHARE_FETCH = _of_group(lambda: ShareFetchResponse(error_code=GROUP_DENIED, responses=[]))
SHARE_ACKNOWLEDGE = _of_group(lambda: ShareAcknowledgeResponse(error_code=GROUP_DENIED, responses=[]))
