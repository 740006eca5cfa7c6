"""All rules over one trace."""

from tests.opinion import fetching, generations, group_offsets, outcomes, positions, possible, producing
from tests.opinion.evidence import gather
from tests.opinion.trace import Circumstances, Objection, Trace

PARTS = (producing, fetching, positions, outcomes, possible, group_offsets, generations)


def judge(trace: Trace, circumstances: Circumstances) -> list[Objection]:
    """The responses that the model does not allow, in the order of sending."""
    evidence = gather(trace, circumstances)
    for part in PARTS:
        part.check(evidence)
    return sorted(evidence.objections, key=lambda one: (one.exchange.sent, one.rule, one.text))
