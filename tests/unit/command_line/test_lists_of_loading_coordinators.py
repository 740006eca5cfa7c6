"""Right behind a start a coordinator still loads: who lists transactions or groups then waits, and sees all of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.groups import ListedGroup, ListGroupsResponse
from protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from protocol.messages.transactions import ListTransactionsResponse, ListTransactionsResponseTransactionState
from tallystick.client.client import Client
from tallystick.inspection import groups, transactions

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Loading(Client):
    """Its one broker answers what it is given, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self._given = list(answers)
        self.patience_s = 60.0
        self.retries = 0

    def forget(self) -> None:
        pass

    async def metadata(self, *_: Any, **__: Any) -> MetadataResponse:
        return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)], topics=[])

    async def node(self, node_id: int) -> Any:
        return self

    def version_for(self, request: Any) -> int:
        return 0

    async def ask(self, *_: Any, **__: Any) -> Any:
        return self._given.pop(0)


NOTHING: Any = {"unknown_state_filters": [], "transaction_states": []}
A_TRANSACTION = ListTransactionsResponseTransactionState(
    transactional_id="tx", producer_id=7, transaction_state="Empty"
)
A_GROUP = ListedGroup(group_id="g", protocol_type="consumer")


@pytest.mark.parametrize(
    ("listed", "answers"),
    [
        (
            transactions.listed,
            [
                ListTransactionsResponse(error_code=LOADING, **NOTHING),
                ListTransactionsResponse(unknown_state_filters=[], transaction_states=[A_TRANSACTION]),
            ],
        ),
        (groups.listed, [ListGroupsResponse(error_code=LOADING, groups=[]), ListGroupsResponse(groups=[A_GROUP])]),
    ],
)
def test_who_lists_waits(listed: Callable[[Client], Awaitable[list[Any]]], answers: list[Any]) -> None:
    async def one_behind_the_other() -> None:
        client = Loading(*answers)
        assert len(await listed(client)) == 1
        assert client.retries == 1

    asyncio.run(one_behind_the_other())
