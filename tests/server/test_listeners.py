"""Listeners by their names: each has an address and settings of its own."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.metadata import ApiVersionsRequest
from tallystick import Broker
from tallystick.process import BrokerProcess
from tests.server.wire import Wire

OPTIONS = (
    *("--listeners", "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"),
    *("--set", "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"),
    *("--set", "listener.name.outside.max.connections=2"),
    "--in-memory",
)
BROKER, SET = 4, 0


def set_to(name: str, value: str) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=SET, value=value)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def test_the_limit_of_one_listener_does_not_hold_for_another(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, options=OPTIONS).start()
    try:
        inside, outside = (cast(Broker, SimpleNamespace(bootstrap=address)) for address in process.bootstrap.split(","))
        wires = [Wire(outside) for _ in range(2)]
        for wire in wires:
            assert wire.ask(ApiVersionsRequest(), 0).error_code == 0  # type: ignore[attr-defined]
        assert Wire(outside).closed()
        others = [Wire(inside) for _ in range(3)]
        answers = [wire.ask(ApiVersionsRequest(), 0) for wire in others]
        assert [answer.error_code for answer in answers] == [0, 0, 0]  # type: ignore[attr-defined]
        changed = others[0].ask(set_to("listener.name.outside.max.connections", "3"), 0)
        assert changed.responses[0].error_code == 0  # type: ignore[attr-defined]
        assert Wire(outside).ask(ApiVersionsRequest(), 0).error_code == 0  # type: ignore[attr-defined]
    finally:
        process.close()
