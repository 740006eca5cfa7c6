"""GetTelemetrySubscriptions (71), PushTelemetry (72): metrics that clients push (KIP-714)."""

from typing import Protocol

from broker.api.catalogue import handles
from broker.api.client_metrics import ACCEPTED_CODECS, ClientMetrics, Instance
from broker.api.context import RequestContext
from broker.api.permissions.of_administration import TELEMETRY
from broker.api.services import WithConfig, WithEnvironment
from protocol.errors import ErrorCode
from protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from protocol.records import compression

RECEIVE = "tallystick.client.telemetry"
"""The setting that has metrics received; without it there are no such APIs, as in a Kafka without a receiver."""
MOST_BYTES = "telemetry.max.bytes"
NO_ID = bytes(16)


class TelemetryServices(WithConfig, WithEnvironment, Protocol):
    """What these handlers use of the node."""

    @property
    def client_metrics(self) -> ClientMetrics: ...


@handles(
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    versions=range(0, 1),
    guard=TELEMETRY,
    setting=RECEIVE,
)
async def get_telemetry_subscriptions(
    services: TelemetryServices, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """What metrics are wanted of a client, and how often: those of all subscriptions that mean it, as often as the most
    frequent of them. Answered at once.

    A client without an id is given one. Who asks again before the interval is over is told
    THROTTLING_QUOTA_EXCEEDED, unless what is wanted has changed. Served where `tallystick.client.telemetry` is true.
    """
    metrics = services.client_metrics
    instance_id = request.client_instance_id if request.client_instance_id != NO_ID else metrics.fresh_id()
    instance = await metrics.instance(instance_id, context)
    if not instance.may_get(services.environment.monotonic_ms()):
        instance.last_error = error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return GetTelemetrySubscriptionsResponse(error_code=error, accepted_compression_types=[], requested_metrics=[])
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=services.config.get_int(MOST_BYTES),
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )


@handles(PushTelemetryRequest, PushTelemetryResponse, versions=range(0, 1), guard=TELEMETRY, setting=RECEIVE)
async def push_telemetry(
    services: TelemetryServices, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    """Take metrics of a client, as OpenTelemetry writes them; the last of each client are kept, and written to
    `client-metrics.prom` in the data folder. Answered when they have been read.

    UNKNOWN_SUBSCRIPTION_ID where something else is wanted by now, THROTTLING_QUOTA_EXCEEDED before the interval is
    over, INVALID_REQUEST without an id or after the end of the client; UNSUPPORTED_COMPRESSION_TYPE,
    TELEMETRY_TOO_LARGE and INVALID_RECORD of what is pushed. Served where `tallystick.client.telemetry` is true.
    """
    if request.client_instance_id == NO_ID:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    instance = await services.client_metrics.instance(request.client_instance_id, context)
    limit = services.config.get_int(MOST_BYTES)
    error = _refused(instance, request, limit, services.environment.monotonic_ms())
    if error is ErrorCode.NONE:
        error = await services.client_metrics.take(
            request.client_instance_id, context, request.compression_type, bytes(request.metrics), limit
        )
    if error is not ErrorCode.NONE:
        instance.last_error = error
    return PushTelemetryResponse(error_code=error)


def _refused(instance: Instance, request: PushTelemetryRequest, limit: int, now_ms: int) -> ErrorCode:
    if instance.ended:
        return ErrorCode.INVALID_REQUEST
    if not instance.may_push(now_ms) and not request.terminating:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    instance.ended = request.terminating
    if request.subscription_id != instance.subscription_id:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in (compression.NONE, *ACCEPTED_CODECS):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.TELEMETRY_TOO_LARGE if len(request.metrics) > limit else ErrorCode.NONE
