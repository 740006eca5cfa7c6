"""Where the stories are told: one broker, ours or Apache Kafka, with three listeners; or one of three nodes, which the
clients have to find from there (`TALLYSTICK_TEST_NODES`).

PLAINTEXT is open, CUT is reached through a proxy that cuts connections, SECURE wants TLS and SCRAM. Who comes through
SECURE is `User:ute`, who may do everything with topics, groups and transactional ids whose names begin with "may-".
"""

from pathlib import Path

from protocol.acls import Acl
from tallystick.client import acls
from tallystick.client.blocking import BlockingClient
from tallystick.process import BrokerProcess
from tests.conformance.matrix.story import Story
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.broker import NODE_COUNT, TEST_SETTINGS, own
from tests.harness.certificates import Certificates
from tests.harness.confluent import wait_until
from tests.harness.proxy import CuttingProxy, free_port, free_ports
from tests.harness.secure_broker import SecureBroker, sasl_settings

USER, PASSWORD = "ute", "ute's, secret=1"
MAY = "may-"
CUT_EACH_BYTES, CUTS = 12_000, 6
_TOPIC, _GROUP, _TRANSACTIONAL_ID = 2, 3, 5
_PREFIXED, _ALL, _ALLOW = 4, 2, 3
_SETTINGS = TEST_SETTINGS | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    # A producer over its quota is looked at for two seconds.
    "quota.window.num": "2",
}
_PROTOCOLS = "PLAINTEXT:PLAINTEXT,CUT:PLAINTEXT,SECURE:SASL_SSL"


class Place:
    """Started. `close` when all is told."""

    def __init__(self, folder: Path, *, kafka: bool) -> None:
        self._nodes = 1 if kafka else NODE_COUNT
        ports = {name: free_ports(self._nodes) for name in ("PLAINTEXT", "CUT", "SECURE")}
        proxied = free_ports(self._nodes)
        self._proxies = [_proxy(proxied + number, ports["CUT"] + number) for number in range(self._nodes)]
        self._authority = Certificates(folder / "certificates")
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        advertised = listeners.replace(f":{ports['CUT']}", f":{proxied}")
        settings = _SETTINGS | self._authority.settings(prefix="listener.name.secure.") | sasl_settings({})
        process = self._process(folder / "broker", settings, listeners, advertised, ports["PLAINTEXT"], kafka=kafka)
        process.start()
        guarded, unguarded = (f"127.0.0.1:{ports[name] + self._nodes - 1}" for name in ("SECURE", "PLAINTEXT"))
        self.broker = SecureBroker(process, guarded, unguarded)
        for proxy in self._proxies:
            proxy.start()
        self.broker.add_users({USER: PASSWORD})
        self._let_in()

    @staticmethod
    def _process(
        folder: Path, settings: dict[str, str], listeners: str, advertised: str, port: int, *, kafka: bool
    ) -> BrokerProcess:
        if kafka:
            controller = free_port()
            settings |= {
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": advertised,
                "listener.security.protocol.map": f"{_PROTOCOLS},CONTROLLER:PLAINTEXT",
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            }
            return ApacheKafka(folder, settings=settings, heap="512m", port=port)
        settings |= {"listener.security.protocol.map": _PROTOCOLS}
        options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        return own(folder, options, listeners=listeners, advertised=advertised)

    def _let_in(self) -> None:
        wanted = [
            Acl(kind, MAY, _PREFIXED, f"User:{USER}", "*", _ALL, _ALLOW) for kind in (_TOPIC, _GROUP, _TRANSACTIONAL_ID)
        ]
        with BlockingClient(self.broker.open_bootstrap) as client:
            client.run(acls.create(client.client, wanted))
            filters = [acls.filter_of(acl) for acl in wanted]
            # Apache Kafka applies them a moment after its answer.
            wait_until(lambda: len(client.run(acls.described(client.client, filters))) == len(wanted), "ACLs")

    def address(self, story: Story) -> dict[str, str]:
        """What a program is told of where to go."""
        if story.place == "guarded":
            who = {"authority": str(self._authority.path("ca")), "user": USER, "password": PASSWORD}
            return {"bootstrap": self.broker.bootstrap, "mechanism": story.mechanism, **who}
        return {"bootstrap": self._proxies[-1].bootstrap if story.place == "cut" else self.broker.open_bootstrap}

    @property
    def cuts(self) -> int:
        """How often, until now."""
        return sum(proxy.cuts for proxy in self._proxies)

    def cut_from_now_on(self) -> None:
        """Connections through the proxy of each node, a few times."""
        for proxy in self._proxies:
            proxy.cut_each(CUT_EACH_BYTES // self._nodes, times=CUTS)

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.stop()
        self.broker.process.close()


def _proxy(port: int, target_port: int) -> CuttingProxy:
    return CuttingProxy(port, lambda: target_port)
