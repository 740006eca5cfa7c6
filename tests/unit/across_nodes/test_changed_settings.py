"""Changes of settings that another node decides: what the node that is asked alone can see, it looks at before."""

import dataclasses
from types import SimpleNamespace
from typing import Any

from broker.api.services import Services
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from tests.unit.cluster.cluster_rig import handle, with_node

BROKER = 4
LIMITS = "max.connections.per.ip.overrides"


class DecidesAll:
    """A controller in another node, to which all comes from there."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, request: IncrementalAlterConfigsRequest, *_: Any) -> IncrementalAlterConfigsResponse:
        self.asked += [str(one.configs[0].value) for one in request.resources]
        return IncrementalAlterConfigsResponse(
            responses=[
                IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                    error_message=None, resource_type=one.resource_type, resource_name=one.resource_name
                )
                for one in request.resources
            ]
        )


def limited(*limits: str) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=BROKER,
                resource_name=name,
                configs=[IncrementalAlterConfigsRequestAlterableConfig(name=LIMITS, config_operation=0, value=value)],
            )
            for name, value in zip(("", "1"), limits, strict=False)
        ],
        validate_only=False,
    )


def test_nobody_shuts_himself_out_by_asking_another_node() -> None:
    """The controller sees the node that asks it, and would let it be."""

    async def story(node: Services) -> None:
        controller = DecidesAll()
        cluster = SimpleNamespace(image=node.cluster.image, leads=False)
        others: Any = SimpleNamespace(controller=controller)
        follower = dataclasses.replace(node, cluster=cluster, others=others)  # type: ignore[arg-type]
        answer = await handle(follower, limited("127.0.0.1:0", "10.0.0.7:0"), 1)
        errors = [one.error_code for one in answer.responses]
        assert errors == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert "would shut out 127.0.0.1" in answer.responses[0].error_message
        assert controller.asked == ["10.0.0.7:0"]

    with_node(story)
