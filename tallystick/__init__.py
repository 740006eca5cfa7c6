"""tallystick: the name people import and type.

`tallystick.Broker` starts a broker as a child process; `tallystick.client` speaks the protocol. Nothing here imports
`protocol`, `keystores`, `storage`, `coordinator` or `broker` by importing it: a user's own packages stay theirs.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallystick.child_broker import Broker, BrokerFailed, Mark, NotDone

__version__ = "0.1.0"
__all__ = ["Broker", "BrokerFailed", "Mark", "NotDone", "__version__"]


def __getattr__(name: str) -> Any:
    if name in ("Broker", "BrokerFailed", "Mark", "NotDone"):
        from tallystick import child_broker

        return getattr(child_broker, name)
    raise AttributeError(f"module 'tallystick' has no attribute {name!r}")
