"""Quotas on a listener with SASL: nobody is charged before it is known, and then under its name."""

import asyncio

import pytest

from broker.api.api_families import load_handlers
from broker.api.charging import ChargingDispatcher
from broker.api.services import Services
from protocol.messages.metadata import MetadataRequest
from tests.unit.security.test_sasl_connections import RIGHT, Caller, story


class ChargedCaller(Caller):
    """One whose requests are charged."""

    def __init__(self, node: Services) -> None:
        super().__init__(node)
        self.host.dispatcher = ChargingDispatcher(node, load_handlers())


@pytest.mark.parametrize("version", [0, 1])
def test_a_user_is_charged_once_it_is_known(version: int) -> None:
    async def tell(node: Services) -> None:
        node.client_quotas.set({"user": None}, {"request_percentage": 1e-9})
        node.client_quotas.set({"user": "ute"}, {"request_percentage": 1e-8})
        caller = ChargedCaller(node)
        assert (await caller.handshake(version=version)).error_code == 0
        if version:
            assert (await caller.say(RIGHT)).error_code == 0
        else:
            await caller.send(len(RIGHT).to_bytes(4, "big") + RIGHT)
        assert caller.principal == "User:ute"
        await asyncio.sleep(0)
        assert caller.transport.reading  # not muted
        answer = await caller.ask(MetadataRequest(topics=[]), 9)
        assert answer.throttle_time_ms == 1000
        assert list(node.client_quotas.request._rates._by_name) == [("ute", "")]
        caller.connection.connection_lost(None)

    story(tell)
