"""UpdateFeatures: the levels that features of the cluster are finalised at (KIP-584, KIP-1022)."""

from protocol.schema import Bool, Int8, Int16, Int32, Kind, String, field, message, struct


@struct
class FeatureUpdateKey:
    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = field(until=0, default=False)
    upgrade_type: Int8 = field(since=1, default=1)


@message(kind=Kind.REQUEST, api_key=57, versions=range(0, 3), flexible=0)
class UpdateFeaturesRequest:
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = field(since=1, default=False)


@struct
class UpdatableFeatureResult:
    feature: String
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@message(kind=Kind.RESPONSE, api_key=57, versions=range(0, 3), flexible=0)
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    results: list[UpdatableFeatureResult] = field(until=1, default_factory=list[UpdatableFeatureResult])
