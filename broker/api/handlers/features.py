"""UpdateFeatures: which level of a feature the whole cluster speaks."""

from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_cluster import UPDATE_FEATURES
from broker.api.services import WithCluster, WithNodeId
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.topic_rules import Refused
from protocol.errors import ErrorCode
from protocol.messages.features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

RESULTS_UNTIL = 1


class FeatureServices(WithCluster, WithNodeId, Protocol):
    """What these handlers use of the node."""


@handles(UpdateFeaturesRequest, UpdateFeaturesResponse, versions=range(0, 3), guard=UPDATE_FEATURES)
async def update_features(
    services: FeatureServices, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Finalise features at other levels, all of them or none. Answered when that is durable and in ApiVersions.

    `transaction.version` may go up and down while clients are at work: each request says by its own version which
    protocol it speaks; the level decides what clients choose for their next transaction, how the broker's own aborts
    fence, and the layout of records. v0 knows no downgrade (a Kafka ignores `allow_downgrade`, too); v1 the type of the
    change, and validation only; v2 one error for all.
    """
    try:
        error = await services.cluster.ask(
            lambda machine, ticket: machine.update_features(
                ticket, request.feature_updates, services.node_id, validate_only=request.validate_only
            )
        )
    except CoordinatorError as refused:
        return UpdateFeaturesResponse(error_code=refused.error)
    if isinstance(error, Refused):
        return UpdateFeaturesResponse(error_code=error.error, error_message=error.message)
    results = [
        # Where all is well, Kafka's message is the name of the error that there is none.
        UpdatableFeatureResult(feature=one.feature, error_message=ErrorCode.NONE.name)
        for one in request.feature_updates
        if context.api_version <= RESULTS_UNTIL
    ]
    return UpdateFeaturesResponse(results=results)
