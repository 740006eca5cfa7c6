"""A client that asks for subscriptions and pushes metrics, and a clock that stands still."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.services import Services
from broker.process.environment import MonotonicMs, RealEnvironment
from protocol.codec import encode_bytes
from protocol.errors import ErrorCode
from protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from tests.unit.cluster.cluster_rig import with_node

NO_ID = bytes(16)
LIMIT = 2000
NONE, THROTTLED, INVALID = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.INVALID_REQUEST
UNKNOWN, BAD_CODEC = ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
TOO_LARGE, BAD_RECORD = ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.INVALID_RECORD
SETTINGS = {"tallystick.client.telemetry": "true", "telemetry.max.bytes": str(LIMIT)}


def same(number: int) -> bytes:
    """An id whose hash is 0."""
    return bytes([number]) * 16


class Client:
    """One that is connected to a node whose clock the test moves."""

    def __init__(self, node: Services, clock: "Clock", name: str = "probe") -> None:
        self._node = node
        self._clock = clock
        self.name = name
        self.connection = ConnectionInfo(
            1, "PLAINTEXT", "127.0.0.1", 4711, software_name="probe-sw", software_version="1.2"
        )

    async def _ask(self, request: Any) -> Any:
        entry = next(one for one in load_handlers().values() if one.request is type(request))
        answer = await entry.handler(
            self._node, RequestContext(self.connection, entry.api_key, 0, 1, self.name), request
        )
        assert encode_bytes(answer, 0)
        return answer

    async def get(self, instance: bytes = NO_ID) -> Any:
        return await self._ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance))

    async def got(self, instance: bytes) -> ErrorCode:
        return ErrorCode((await self.get(instance)).error_code)

    async def push(
        self, instance: bytes, subscription: int, metrics: bytes = b"", *, last: bool = False, codec: int = 0
    ) -> ErrorCode:
        request = PushTelemetryRequest(
            client_instance_id=instance,
            subscription_id=subscription,
            terminating=last,
            compression_type=codec,
            metrics=metrics,
        )
        answer = await self._ask(request)
        assert answer == PushTelemetryResponse(throttle_time_ms=0, error_code=answer.error_code)
        return ErrorCode(answer.error_code)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """That of all nodes of a test."""
    made = Clock()
    monkeypatch.setattr(RealEnvironment, "monotonic_ms", lambda environment: MonotonicMs(made.now_ms))
    return made


def told(story: Callable[[Services, Client], Awaitable[Any]], clock: Clock, folder: Path | None = None) -> Any:
    async def run(node: Services) -> Any:
        return await story(node, Client(node, clock))

    return with_node(run, folder=folder, settings=SETTINGS)
