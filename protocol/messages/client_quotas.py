"""Quotas of users, client ids and addresses (KIP-546)."""

from protocol.schema import Bool, Float64, Int8, Int16, Int32, Kind, String, field, message, struct


@struct
class QuotaFilterComponent:
    entity_type: String
    match_type: Int8
    match: String | None = field(nullable_since=0)


@message(kind=Kind.REQUEST, api_key=48, versions=range(0, 2), flexible=1)
class DescribeClientQuotasRequest:
    components: list[QuotaFilterComponent]
    strict: Bool = False


@struct
class DescribedQuotaEntity:
    entity_type: String
    entity_name: String | None = field(nullable_since=0)


@struct
class DescribedQuotaValue:
    key: String
    value: Float64


@struct
class DescribedQuotas:
    entity: list[DescribedQuotaEntity]
    values: list[DescribedQuotaValue]


@message(kind=Kind.RESPONSE, api_key=48, versions=range(0, 2), flexible=1)
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default="")
    entries: list[DescribedQuotas] | None = field(nullable_since=0)


@struct
class AlteredQuotaEntity:
    entity_type: String
    entity_name: String | None = field(nullable_since=0)


@struct
class QuotaOperation:
    key: String
    value: Float64 = 0.0
    remove: Bool = False


@struct
class QuotaAlterationEntry:
    entity: list[AlteredQuotaEntity]
    ops: list[QuotaOperation]


@message(kind=Kind.REQUEST, api_key=49, versions=range(0, 2), flexible=1)
class AlterClientQuotasRequest:
    entries: list[QuotaAlterationEntry]
    validate_only: Bool = False


@struct
class QuotaAlterationResult:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    entity: list[AlteredQuotaEntity]


@message(kind=Kind.RESPONSE, api_key=49, versions=range(0, 2), flexible=1)
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: list[QuotaAlterationResult]
