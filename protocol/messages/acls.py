"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): who may do what."""

from protocol.schema import Int8, Int16, Int32, Kind, String, field, message, struct


@message(kind=Kind.REQUEST, api_key=29, versions=range(1, 4), flexible=2)
class DescribeAclsRequest:
    resource_type_filter: Int8
    resource_name_filter: String | None = field(nullable_since=0)
    pattern_type_filter: Int8 = field(since=1, default=3)
    principal_filter: String | None = field(nullable_since=0)
    host_filter: String | None = field(nullable_since=0)
    operation: Int8
    permission_type: Int8


@struct
class AclDescription:
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResource:
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(since=1, default=3)
    acls: list[AclDescription]


@message(kind=Kind.RESPONSE, api_key=29, versions=range(1, 4), flexible=2)
class DescribeAclsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    resources: list[DescribeAclsResource]


@struct
class AclCreation:
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = field(since=1, default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(kind=Kind.REQUEST, api_key=30, versions=range(1, 4), flexible=2)
class CreateAclsRequest:
    creations: list[AclCreation]


@struct
class AclCreationResult:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@message(kind=Kind.RESPONSE, api_key=30, versions=range(1, 4), flexible=2)
class CreateAclsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]


@struct
class DeleteAclsFilter:
    resource_type_filter: Int8
    resource_name_filter: String | None = field(nullable_since=0)
    pattern_type_filter: Int8 = field(since=1, default=3)
    principal_filter: String | None = field(nullable_since=0)
    host_filter: String | None = field(nullable_since=0)
    operation: Int8
    permission_type: Int8


@message(kind=Kind.REQUEST, api_key=31, versions=range(1, 4), flexible=2)
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(since=1, default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsFilterResult:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    matching_acls: list[DeleteAclsMatchingAcl]


@message(kind=Kind.RESPONSE, api_key=31, versions=range(1, 4), flexible=2)
class DeleteAclsResponse:
    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult]
