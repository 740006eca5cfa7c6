"""The broker's configuration: Kafka's keys, checked, laid over each other, readable as typed values.

From lowest to highest: defaults, `server.properties`, `KAFKA_*` environment, `--set` and flags, then what was changed
while running for all brokers and for this one (ConfigRecords). Values are read where they are used, so that a change
takes effect; a parsed value is remembered until the next change.
"""

import os.path
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from broker.config.listeners import Endpoint
from broker.config.login_file import login_settings
from broker.config.security_protocols import (
    SecurityProtocol,
    check_advertised,
    check_protocols,
    read_endpoints,
    read_protocol_map,
)
from broker.config.sources import ConfigError, read_environment, read_file, read_login_file, read_settings
from broker.config.topic_config import RecordChecks, TopicConfig
from coordinator.cluster.keys.broker_keys import INT_MAX
from coordinator.cluster.keys.config_keys import BROKER_KEYS, TOPIC_KEYS, Layers, Resolved, broker_key, is_ignored
from coordinator.cluster.keys.config_types import ConfigKey, ConfigSource, ConfigValue, InvalidConfig, Scope
from coordinator.cluster.keys.listener_keys import name_of
from protocol.records.compression import Bounds

__all__ = ["BrokerConfig", "ConfigError"]

NODE_SILENCE = "broker.session.timeout.ms"

Listener = Callable[[frozenset[str]], None]
"""Called with the names of the keys that changed."""
Guard = Callable[["BrokerConfig"], Awaitable[None]]
"""Tries out settings before they are made. Raises `BadTls`."""
Settling = Callable[[], Awaitable[None]]
"""Returns when settings that were changed are in force."""


class BrokerConfig:
    """All settings of one node. Raises `ConfigError` in a plain sentence where they cannot be used."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        static = dict(values or {})
        self.warnings: tuple[str, ...] = _warnings(static)
        """What a person should know: keys that are unknown or have no effect here. For the log at start."""
        self._static = {name: text for name, text in static.items() if broker_key(name) is not None}
        self._cluster_wide: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self.guards: list[Guard] = []
        self.settling: list[Settling] = []
        self._parsed: dict[str, ConfigValue | None] = {}
        self._topic_defaults: dict[str, ConfigValue] = {}
        self._rebuild()
        self._check()

    @classmethod
    def from_sources(
        cls,
        *,
        properties: str | None = None,
        properties_path: str = "server.properties",
        environment: Mapping[str, str] | None = None,
        settings: Iterable[str] = (),
        flags: Mapping[str, str] | None = None,
    ) -> "BrokerConfig":
        """Lay all sources over each other. `properties` is the text of the file, not its path."""
        values: dict[str, str] = {}
        if properties is not None:
            values |= read_file(properties, where=properties_path)
        values |= read_environment(environment or {})
        values |= read_settings(settings) | dict(flags or {})
        config = cls(values)
        guarded = [one.listener for one in config.listeners if config.security_protocol(one.listener).has_sasl]
        login_file = read_login_file(environment or {}) if guarded else None
        return config if login_file is None else cls(login_settings(login_file, guarded) | values)

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, name: str) -> ConfigValue | None:
        """The value that holds now, parsed; None where nothing is set and there is no default."""
        try:
            return self._parsed[name]
        except KeyError:
            return self._remember(name)

    def _remember(self, name: str) -> ConfigValue | None:
        key = broker_key(name)
        assert key is not None, name
        text = self.layers.broker(key).value
        value = None if text is None else key.parse(text)
        self._parsed[name] = value
        return value

    def get_int(self, name: str) -> int:
        value = self.get(name)
        assert isinstance(value, int) and not isinstance(value, bool), name
        return value

    def get_float(self, name: str) -> float:
        value = self.get(name)
        assert isinstance(value, int | float) and not isinstance(value, bool), name
        return float(value)

    def get_bool(self, name: str) -> bool:
        value = self.get(name)
        assert isinstance(value, bool), name
        return value

    def get_str(self, name: str) -> str:
        value = self.get(name)
        assert isinstance(value, str), name
        return value

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self.get(name)
        assert isinstance(value, tuple), name
        return value

    def of_listener(self, listener: str, name: str, mechanism: str = "") -> ConfigValue | None:
        """The value for one listener, or for one SASL mechanism of it: as `listener.name.LISTENER.MECHANISM.NAME` says,
        else `listener.name.LISTENER.NAME`, else `NAME`."""
        return self.get(name_of(listener, name, mechanism))

    def settings_of_listeners(self) -> list[ConfigKey]:
        """The keys that are set of one listener, by name."""
        return [key for name in sorted(self._said()) if name not in BROKER_KEYS and (key := broker_key(name))]

    def resolve(self, name: str) -> Resolved:
        """The value with its source and synonyms, for DescribeConfigs."""
        key = broker_key(name)
        assert key is not None, name
        return self.layers.broker(key)

    # -- what is asked for often -----------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def cluster_id(self) -> str | None:
        value = self.get("cluster.id")
        return value if isinstance(value, str) else None

    @property
    def rack(self) -> str | None:
        """None for an empty one, too: so a container says it whose machine has no label."""
        value = self.get("broker.rack")
        return value if isinstance(value, str) and value else None

    @property
    def data_folder(self) -> str:
        return self.get_list("log.dirs")[0]

    @property
    def in_memory(self) -> bool:
        return self.get_bool("tallystick.in.memory") or self.node_count > 1

    @property
    def node_count(self) -> int:
        """How many nodes this process is."""
        return self.get_int("tallystick.nodes")

    @property
    def store(self) -> str:
        """The address of a shared store; empty where logs lie in the data folder or in memory."""
        return self.get_str("tallystick.store")

    @property
    def objects(self) -> str:
        """Where such a store keeps the bytes of clients' topics apart; empty: it does not."""
        return self.get_str("tallystick.store.objects")

    @property
    def place(self) -> str:
        """Where logs lie, for people: a folder, or the address of a store without what is secret in it."""
        if not self.store:
            return os.path.abspath(self.data_folder)
        address = urlsplit(self.store)
        # Several hosts may be named. A password that was not quoted may reach into the path: nothing before the @.
        database = f"{address.scheme}://{(address.netloc + address.path).rpartition('@')[2]}"
        return f"{database} and {self.objects}" if self.objects else database

    @property
    def has_files(self) -> bool:
        """Whether there is a data folder."""
        return not self.in_memory and not self.store

    @property
    def page_cache(self) -> bool:
        """Acknowledged means written, not synced (`tallystick.durability`)."""
        return self.get_str("tallystick.durability") == "page-cache"

    @property
    def write_ahead_bytes(self) -> int:
        """The size of the write-ahead log; 0 where there is none."""
        return 0 if self.page_cache else self.get_int("tallystick.write.ahead.bytes")

    @property
    def write_ahead_after(self) -> int:
        """How many syncs of logs that have grown by little make it worth while."""
        return 200

    @property
    def listeners(self) -> tuple[Endpoint, ...]:
        """Where to listen: the configured listeners without those of a controller quorum."""
        return self._for_clients("listeners")

    @property
    def advertised_listeners(self) -> tuple[Endpoint, ...]:
        """The addresses given to clients; a listener that is not among them is advertised as it is bound."""
        return () if self.get("advertised.listeners") is None else self._for_clients("advertised.listeners")

    def security_protocol(self, listener: str) -> SecurityProtocol:
        """What a listener speaks."""
        return self._protocols()[listener]

    def _protocols(self) -> dict[str, SecurityProtocol]:
        return read_protocol_map(self.get_str("listener.security.protocol.map"))

    def _for_clients(self, key: str) -> tuple[Endpoint, ...]:
        quorum = {name.upper() for name in self.get_list("controller.listener.names")}
        return tuple(one for one in read_endpoints(key, self.get_list(key)) if one.listener not in quorum)

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """What partitions of a topic with these settings obey now."""
        if not self._topic_defaults:
            self._topic_defaults = {name: self._topic_default(key) for name, key in TOPIC_KEYS.items()}
        own = {name: TOPIC_KEYS[name].parse(text) for name, text in overrides.items() if name in TOPIC_KEYS}
        return TopicConfig.from_values(
            self._topic_defaults | own,
            record_checks=RecordChecks(self.get_str("tallystick.record.checks")),
            decompression=Bounds(
                self.get_int("tallystick.decompression.max.bytes"), self.get_int("tallystick.decompression.max.ratio")
            ),
        )

    def _topic_default(self, key: ConfigKey) -> ConfigValue:
        text = self.layers.topic(key, {}).value
        assert text is not None, key.name
        return key.parse(text)

    def of_node(self, number: int) -> "BrokerConfig":
        """Those of one of the nodes that this process is, from 0: the next id, the next ports. They share their clock
        and stand still together: none has to find out by a silence that another is gone."""
        own = {"node.id": str(self.node_id + number), NODE_SILENCE: str(INT_MAX)}
        if self.rack is not None:
            racks = self.rack.split(",")
            own["broker.rack"] = racks[number % len(racks)]
        own["listeners"] = _further(self.listeners, number)
        if self.advertised_listeners:
            own["advertised.listeners"] = _further(self.advertised_listeners, number)
        return BrokerConfig(self._static | own)

    # -- changing --------------------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> None:
        """Be called after each change with the names of the keys that changed."""
        self._listeners.append(listener)

    def guard(self, guard: Guard, settling: Settling) -> None:
        """Have a part of the broker look at settings of listeners before they change, and be waited for after."""
        self.guards.append(guard)
        self.settling.append(settling)

    def with_own(self, own: Mapping[str, str]) -> "BrokerConfig":
        """What these would be if this was said of this broker while it runs."""
        wanted = BrokerConfig(self._static)
        wanted.apply_dynamic(cluster_wide=self._cluster_wide, own=own)
        return wanted

    def said_again(self, names: frozenset[str]) -> None:
        """Tell whoever listens of keys that were set to what they are: files that they name may be new
        (KAFKA-14136)."""
        for listener in self._listeners:
            listener(names)

    def apply_dynamic(self, *, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Take what ConfigRecords say of all brokers and of this one, whole. Keys that cannot be changed while the
        broker runs, or that this version does not know, are passed over: the log may be another version's."""
        said = _dynamic(cluster_wide), _dynamic(own)
        if said == (self._cluster_wide, self._own):
            return
        before = {name: self.get(name) for name in {*BROKER_KEYS, *self._said(), *said[0], *said[1]}}
        self._cluster_wide, self._own = said
        self._rebuild()
        changed = frozenset(name for name, value in before.items() if self.get(name) != value)
        if changed:
            for listener in self._listeners:
                listener(changed)

    def _said(self) -> Iterable[str]:
        """The names of all that is set anywhere."""
        return {**self._static, **self._cluster_wide, **self._own}

    def _rebuild(self) -> None:
        self._parsed = {}
        self._topic_defaults = {}
        self.layers = Layers(
            (
                (ConfigSource.DYNAMIC_BROKER, self._own),
                (ConfigSource.DYNAMIC_DEFAULT_BROKER, self._cluster_wide),
                (ConfigSource.STATIC_BROKER, self._static),
            )
        )

    def _check(self) -> None:
        for name in self._static:
            try:
                self.get(name)
            except InvalidConfig as problem:
                raise ConfigError(f"{problem}.") from None
        if len(self.get_list("log.dirs")) != 1:
            raise ConfigError("log.dirs: exactly one data folder is supported.")
        if not self.listeners:
            raise ConfigError("listeners: there is none for clients.")
        self._check_nodes()
        if self.store and (self.in_memory or self.page_cache):
            raise ConfigError("tallystick.store: what lies in a store is neither in memory only, nor in a page cache.")
        if self.objects and not self.store:
            raise ConfigError(
                "tallystick.store.objects: objects lie apart from a store, and tallystick.store names none."
            )
        if self.store and self.get_list("tallystick.repair"):
            raise ConfigError("tallystick.repair: what lies in a store is repaired in its database, by a backup of it.")
        check_protocols(self.listeners, self._protocols())
        check_advertised(self.listeners, self.advertised_listeners)

    def _check_nodes(self) -> None:
        """Several of them in one process have what they have in common in memory."""
        if self.node_count == 1:
            return
        wrong = ""
        if self.store:
            wrong = "nodes over a store are processes of their own, each with a node.id"
        elif not self._static.keys().isdisjoint(("log.dirs", "log.dir")):
            wrong = "several nodes in one process keep everything in memory, and have no data folder"
        elif self.get_str("tallystick.http").strip() or self.get_str("tallystick.console").strip():
            wrong = "several nodes in one process have neither an HTTP side nor a console beside them"
        if wrong:
            raise ConfigError(f"tallystick.nodes: {wrong}.")


def _further(endpoints: Iterable[Endpoint], by: int) -> str:
    """The same on ports that are so much higher; 0 is a free one all the same."""
    moved = (replace(one, port=one.port and one.port + by) for one in endpoints)
    return ",".join(f"{one.listener}://{one}" for one in moved)


def _dynamic(values: Mapping[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, text in values.items():
        key = broker_key(name)
        if key is None or key.scope is Scope.READ_ONLY:
            continue
        try:
            key.parse(text)
        except InvalidConfig:
            continue
        kept[name] = text
    return kept


def _warnings(static: Mapping[str, str]) -> tuple[str, ...]:
    sentences: list[str] = []
    for name in sorted(static):
        key = broker_key(name)
        if key is None and is_ignored(name):
            sentences.append(f"{name} concerns what this broker does not have; it is passed over.")
        elif key is None:
            sentences.append(f"{name} is not a setting of this broker; it is passed over.")
        elif not key.effective:
            sentences.append(f"{name} is understood, and has no effect here: {key.documentation}")
    return tuple(sentences)
