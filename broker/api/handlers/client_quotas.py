"""DescribeClientQuotas (48), AlterClientQuotas (49): how much users, client ids and addresses may do."""

from collections import Counter
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_cluster import ALTER_QUOTAS, DESCRIBE_QUOTAS
from broker.api.services import WithCluster, WithEnvironment
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.quota_alterations import AlteredQuotas, QuotaAlteration
from coordinator.cluster.quotas import entity_of, quota_filter
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST, TOO_LARGE, Refused
from protocol.errors import ErrorCode
from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotaEntity,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedQuotaEntity,
    DescribedQuotas,
    DescribedQuotaValue,
    QuotaAlterationEntry,
    QuotaAlterationResult,
)


class QuotaServices(WithCluster, WithEnvironment, Protocol):
    """What these handlers use of the node."""


@handles(DescribeClientQuotasRequest, DescribeClientQuotasResponse, versions=range(0, 2), guard=DESCRIBE_QUOTAS)
async def describe_client_quotas(
    services: QuotaServices, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Quotas of the entities that match all components of a filter; strictly: that are of no other type. Answered at
    once.

    v1 is flexible.
    """
    time_slice = services.environment.time_slice()
    try:
        wanted = quota_filter(
            ((one.entity_type, one.match_type, one.match) for one in request.components), strict=request.strict
        )
    except Refused as refused:
        return DescribeClientQuotasResponse(error_code=refused.error, error_message=refused.message, entries=None)
    entries: list[DescribedQuotas] = []
    for entity, quotas in list(services.cluster.image.quotas.by_entity.items()):
        if wanted.matches(entity):
            names = [DescribedQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity]
            values = [DescribedQuotaValue(key=key, value=value) for key, value in quotas.items()]
            entries.append(DescribedQuotas(entity=names, values=values))
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return DescribeClientQuotasResponse(entries=entries)


@handles(AlterClientQuotasRequest, AlterClientQuotasResponse, versions=range(0, 2), guard=ALTER_QUOTAS)
async def alter_client_quotas(
    services: QuotaServices, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Set quotas and take them away, entity by entity. Answered when durable and in force.

    An entity changes whole or not at all. One that is named twice is refused and stays as it is (Kafka refuses the
    second and keeps the first); each is answered once. Addresses are numbers: names of hosts are not looked up. v1 is
    flexible.
    """
    time_slice = services.environment.time_slice()
    alterations = await time_slice.each(_alteration, request.entries)
    times_named = Counter(one.entity for one in alterations)
    unique = list({one.entity: one for one in alterations}.values())
    if sum(1 + len(one.ops) for one in alterations) > MOST_RECORDS_PER_REQUEST:
        results = [AlteredQuotas(one.entity, ErrorCode.POLICY_VIOLATION, TOO_LARGE) for one in unique]
    else:
        try:
            results = await services.cluster.ask_in_slices(
                unique,
                lambda machine, ticket, rest, spent: machine.alter_client_quotas(
                    ticket, rest, times_named, validate_only=request.validate_only, spent=spent
                ),
            )
        except CoordinatorError as refused:
            results = [AlteredQuotas(one.entity, refused.error) for one in unique]
    return AlterClientQuotasResponse(entries=await time_slice.each(_result, results))


def _alteration(entry: QuotaAlterationEntry) -> QuotaAlteration:
    entity = entity_of((one.entity_type, one.entity_name) for one in entry.entity)
    return QuotaAlteration(entity, tuple((one.key, None if one.remove else one.value) for one in entry.ops))


def _result(altered: AlteredQuotas) -> QuotaAlterationResult:
    names = [AlteredQuotaEntity(entity_type=kind, entity_name=name) for kind, name in altered.entity]
    return QuotaAlterationResult(error_code=altered.error, error_message=altered.message, entity=names)
