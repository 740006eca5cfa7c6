"""Dispatch where there are quotas: each request is charged for what it used, and its client silenced where that is too
much. A broker without quotas has the plain `Dispatcher`.

KIP-219: the answer goes out at once and tells `throttle_time_ms`; the connection is not read from for that long.

Another node is not charged: what it passes on it has charged its client for, and all clients would wait where it does.
"""

from collections.abc import Coroutine, Mapping
from typing import Any

from broker.api.catalogue import NO_ANSWER, Entry
from broker.api.context import ConnectionInfo
from broker.api.dispatch import PRODUCE, Call, Decoded, Dispatcher
from broker.api.permissions.of_nodes import is_a_node
from broker.api.services import Services
from broker.process.eager import is_coroutine
from broker.security.quotas.charge import Charge
from protocol.schema import Buffer

WRITE_TXN_MARKERS = 27
"""Exempt, whoever asks, as in Kafka."""


class ChargingDispatcher(Dispatcher):
    """See the head of this file."""

    def __init__(self, services: Services, catalogue: Mapping[int, Entry]) -> None:
        super().__init__(services, catalogue)
        self._quotas = services.client_quotas

    def read(self, connection: ConnectionInfo, frame: Buffer) -> Call:
        began_s, gate = self._quotas.work_clock(), connection.gate
        is_known = gate is None or gate.is_known
        call = super().read(connection, frame)
        if not is_known or is_a_node(self._services, call.context):  # of the former there is nobody to charge
            return call
        charge = Charge(self._quotas, connection.principal, call.context.client_id or "", len(frame), began_s)
        charge.pause()
        return _ChargedCall(call, charge)

    async def decode(self, call: Call) -> Decoded:
        charge, work = call.context.charge, super().decode(call)
        return await (work if charge is None else charge.timed(work))

    def run(self, call: Call) -> Any:
        charge = call.context.charge
        if charge is None:  # it was read before there were quotas
            return super().run(call)
        charge.begin()
        try:
            result = super().run(call)
        finally:
            charge.pause()
        if is_coroutine(result):
            return _finished(call, charge, result)
        if result is NO_ANSWER:
            _mute(call, charge.produced(answered=False))
        return result


async def _finished(call: Call, charge: Charge, work: Coroutine[Any, Any, Any]) -> Any:
    result = await charge.timed(work)
    if result is NO_ANSWER:
        _mute(call, charge.produced(answered=False))
    return result


class _ChargedCall(Call):
    """Charged when it is answered, once."""

    __slots__ = ("_charge",)

    def __init__(self, call: Call, charge: Charge) -> None:
        super().__init__(
            call.entry, call.context.charged(charge), call.request, call.elements, undecoded=call.undecoded
        )
        self._charge = None if call.entry.api_key == WRITE_TXN_MARKERS else charge

    def encode(self, response: Any) -> list[Buffer]:
        charge, self._charge = self._charge, None
        if charge is not None:
            is_produce = self.entry.api_key == PRODUCE
            throttle_ms = charge.produced(answered=True) if is_produce else charge.answered()
            if throttle_ms:
                if hasattr(response, "throttle_time_ms"):
                    response.throttle_time_ms = throttle_ms
                _mute(self, throttle_ms)
        return super().encode(response)


def _mute(call: Call, throttle_ms: int) -> None:
    mute = call.context.connection.mute
    if throttle_ms and mute is not None:
        mute(throttle_ms)
