"""Reading and changing configuration."""

from protocol.schema import Bool, Int8, Int16, Int32, Kind, String, field, message, struct


@struct
class DescribeConfigsResource:
    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None = field(nullable_since=0)


@message(kind=Kind.REQUEST, api_key=32, versions=range(1, 5), flexible=4)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = False
    include_documentation: Bool = field(since=3, default=False)


@struct
class DescribeConfigsSynonym:
    name: String
    value: String | None = field(nullable_since=0)
    source: Int8


@struct
class DescribeConfigsResourceResult:
    name: String
    value: String | None = field(nullable_since=0)
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: Int8 = field(since=3, default=0)
    documentation: String | None = field(since=3, nullable_since=0, default="")


@struct
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0)
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


@message(kind=Kind.RESPONSE, api_key=32, versions=range(1, 5), flexible=4)
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]


@struct
class AlterConfigsRequestAlterableConfig:
    name: String
    value: String | None = field(nullable_since=0)


@struct
class AlterConfigsRequestAlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: list[AlterConfigsRequestAlterableConfig]


@message(kind=Kind.REQUEST, api_key=33, versions=range(0, 3), flexible=2)
class AlterConfigsRequest:
    resources: list[AlterConfigsRequestAlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResponseAlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0)
    resource_type: Int8
    resource_name: String


@message(kind=Kind.RESPONSE, api_key=33, versions=range(0, 3), flexible=2)
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResponseAlterConfigsResourceResponse]


@struct
class IncrementalAlterConfigsRequestAlterableConfig:
    name: String
    config_operation: Int8
    value: String | None = field(nullable_since=0)


@struct
class IncrementalAlterConfigsRequestAlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: list[IncrementalAlterConfigsRequestAlterableConfig]


@message(kind=Kind.REQUEST, api_key=44, versions=range(0, 2), flexible=1)
class IncrementalAlterConfigsRequest:
    resources: list[IncrementalAlterConfigsRequestAlterConfigsResource]
    validate_only: Bool


@struct
class IncrementalAlterConfigsResponseAlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0)
    resource_type: Int8
    resource_name: String


@message(kind=Kind.RESPONSE, api_key=44, versions=range(0, 2), flexible=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[IncrementalAlterConfigsResponseAlterConfigsResourceResponse]


@message(kind=Kind.REQUEST, api_key=74, versions=range(0, 2), flexible=0)
class ListConfigResourcesRequest:
    resource_types: list[Int8] = field(since=1, default_factory=list[Int8])


@struct
class ConfigResource:
    resource_name: String
    resource_type: Int8 = field(since=1, default=16)


@message(kind=Kind.RESPONSE, api_key=74, versions=range(0, 2), flexible=0)
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource]
