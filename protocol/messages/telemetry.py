"""Metrics that clients push to their broker (KIP-714)."""

from protocol.schema import Bool, Bytes, Int8, Int16, Int32, Kind, String, Uuid, message


@message(kind=Kind.REQUEST, api_key=71, versions=range(0, 1), flexible=0)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid


@message(kind=Kind.RESPONSE, api_key=71, versions=range(0, 1), flexible=0)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = bytes(16)
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: list[String]


@message(kind=Kind.REQUEST, api_key=72, versions=range(0, 1), flexible=0)
class PushTelemetryRequest:
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@message(kind=Kind.RESPONSE, api_key=72, versions=range(0, 1), flexible=0)
class PushTelemetryResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
