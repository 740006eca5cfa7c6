"""Where a cluster is and how it is spoken to, as options say it: what is pickled and handed to tasks.

What connections are made with follows from it in each process, and anew when a file of keys or certificates changes:
a certificate that was renewed is used by the connections that are opened from then on.
"""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from keystores.key_files import Stamp, stamp
from spark_connector.errors import BadOption, as_options
from tallystick.client.security import Security
from tallystick.client.security_settings import BadSettings, security_of

_PREFIX = "kafka."
_FILES = ("ssl.truststore.location", "ssl.keystore.location")

State = tuple[Stamp, ...]
"""Of the files that are named."""


@dataclass(frozen=True, slots=True)
class Access:
    """By the names of Kafka's clients, without the prefix."""

    bootstrap: str
    client_id: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def state(self) -> State:
        """Differs when a file of keys or certificates does."""
        named = dict(self.settings)
        return tuple(stamp(named[name]) for name in _FILES if named.get(name))

    def security(self) -> Security:
        """What connections are made with. Raises `BadOption`."""
        key = (os.getpid(), self.settings, self.state())
        with _making:
            if key not in _made:
                try:
                    _made[key] = security_of(dict(self.settings))
                except BadSettings as problem:
                    raise BadOption(as_options(str(problem))) from None
            return _made[key]


_made: dict[tuple[int, tuple[tuple[str, str], ...], State], Security] = {}
_making = threading.Lock()


def access_of(values: Mapping[str, object]) -> Access:
    """Of options that were read (`options.CLUSTER`)."""
    given = {
        name.removeprefix(_PREFIX): str(value)
        for name, value in values.items()
        if name.startswith((f"{_PREFIX}security.", f"{_PREFIX}ssl.", f"{_PREFIX}sasl.")) and value is not None
    }
    return Access(str(values["kafka.bootstrap.servers"]), str(values["kafka.client.id"]), tuple(sorted(given.items())))
