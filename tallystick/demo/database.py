"""A database of the demo's own: a PostgreSQL and its synchronous standby, which takes over when the first is killed."""

import signal

from tallystick.postgresql_process import PostgresqlProcess


class OwnDatabase:
    """Not started by the constructor; `close` is safe at any time."""

    def __init__(self) -> None:
        self._servers: list[PostgresqlProcess] = []

    def start(self) -> None:
        """Raises `PostgresqlFailed`."""
        primary = PostgresqlProcess()
        self._servers.append(primary)
        primary.start()
        self._servers.append(primary.follow_with())

    @property
    def url(self) -> str:
        """Of both."""
        primary, standby = self._servers
        return primary.url("tallystick_demo", standby)

    def fail_over(self) -> None:
        """Every process of the primary is killed, for good; the standby is the primary when this returns."""
        primary, standby = self._servers
        primary.stop(signal.SIGKILL)
        standby.promote()

    def close(self) -> None:
        for server in self._servers:
            server.close()
