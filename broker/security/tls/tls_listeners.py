"""TLS of all listeners that speak it: loaded once before anybody is served, and kept current.

Loaded anew when a setting of a listener changes or is said again (IncrementalAlterConfigs), and when a file does.
Connections that are there keep what they began with. What cannot be loaded leaves everything as it was, with a line in
the log.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from broker.config.broker_config import BrokerConfig
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.security.tls.contexts import LoadedTls, load_tls, stamps_of
from broker.security.tls.errors import BadTls
from broker.security.tls.settings import TlsSettings, tls_settings
from keystores.key_files import Stamp

WARN_DAYS = 14
FAMILY = ".ssl."

_log = EventLog("tls")


class TlsListeners:
    """See the head of this file."""

    def __init__(self, config: BrokerConfig, environment: Environment, listeners: Iterable[str]) -> None:
        self._config = config
        self._environment = environment
        self._listeners = tuple(listeners)
        self._loaded: dict[str, LoadedTls] = {}
        self._refused: dict[str, tuple[TlsSettings, tuple[Stamp, ...]]] = {}
        """What could not be loaded, so that it is said once."""
        self._changed = asyncio.Event()
        self._looking = asyncio.Lock()
        config.subscribe(self._settings_changed)
        config.guard(self.check, self.settled)

    def of(self, listener: str) -> LoadedTls:
        """What a client that comes now is met with."""
        return self._loaded[listener]

    async def load(self) -> None:
        """For the first time. Raises `BadTls`."""
        for listener in self._listeners:
            self._take(await self._load(tls_settings(self._config, listener)))

    async def check(self, wanted: BrokerConfig) -> None:
        """Whether these settings could be taken now. Raises `BadTls`."""
        for listener in self._listeners:
            settings = tls_settings(wanted, listener)
            before = self._loaded.get(listener)
            if before is None or settings != before.settings or stamps_of(settings) != before.stamps:
                loaded = await self._load(settings)
                if before is not None:
                    before.check_successor(loaded)

    async def keep_current(self) -> None:
        """Until it is cancelled: look every so often whether files have changed, and at once when settings do."""
        while True:
            pause_s = self._config.get_int("tallystick.tls.file.check.interval.ms") / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
            await self._look_at_all()

    async def settled(self) -> None:
        """Returns when settings that were changed before are in force, or found to be of no use."""
        if self._changed.is_set() or self._looking.locked():
            await self._look_at_all()

    async def _look_at_all(self) -> None:
        async with self._looking:
            self._changed.clear()
            for listener in self._listeners:
                await self._look(listener)

    async def _look(self, listener: str) -> None:
        before = self._loaded[listener]
        settings = tls_settings(self._config, listener)
        stamps = await self._environment.run_beside(lambda: stamps_of(settings))
        if (settings, stamps) in ((before.settings, before.stamps), self._refused.get(listener)):
            return
        try:
            loaded = await self._load(settings)
            before.check_successor(loaded)
        except BadTls as problem:
            self._refused[listener] = settings, stamps
            _log.error("certificates cannot be loaded, those before them stay", listener=listener, reason=problem)
        else:
            self._take(loaded)

    async def _load(self, settings: TlsSettings) -> LoadedTls:
        return await self._environment.run_beside(lambda: load_tls(settings))

    def _take(self, loaded: LoadedTls) -> None:
        listener, certificate = loaded.settings.listener, loaded.certificate
        self._loaded[listener] = loaded
        self._refused.pop(listener, None)
        _log.info(
            "certificate loaded",
            listener=listener,
            subject=loaded.name,
            serial=f"{certificate.serial_number:x}",
            until=certificate.not_valid_after_utc.isoformat(),
        )
        now = datetime.fromtimestamp(self._environment.wall_ms() / 1000, UTC)
        if certificate.not_valid_before_utc > now:
            _log.warning("the certificate is not valid yet, clients will refuse it", listener=listener)
        left = certificate.not_valid_after_utc - now
        if left.total_seconds() < 0:
            _log.warning("the certificate has run out, clients will refuse it", listener=listener)
        elif left.days < WARN_DAYS:
            _log.warning("the certificate runs out soon", listener=listener, days=left.days)

    def _settings_changed(self, names: frozenset[str]) -> None:
        if any(FAMILY in f".{name}" for name in names):
            self._changed.set()
