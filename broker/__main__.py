"""The server process: flags, signals, an orderly end.

Started through `python -P -m tallystick serve`, which makes sure that the packages imported here are ours. Exit status:
0 after an orderly end, 1 after a failure of the disk or a bug, 2 where the broker could not start as configured.
"""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker import starting
from broker.config.advertised_file import ADVERTISED_FILE, wait_for_line
from broker.config.broker_config import BrokerConfig, ConfigError
from broker.config.listeners import BadListener, Endpoint, advertised, reachable
from broker.console_process import console_of
from broker.disk.local_files import DataFolderLocked, LocalFiles
from broker.network.listeners import SocketSettings, bind_all
from broker.network.server import Server, backlog
from broker.node import Node
from broker.process.compiled_modules import compiled_modules
from broker.process.descriptor_limit import raise_limit
from broker.process.environment import OwnProcess, RealEnvironment
from broker.process.logging import LEVELS, EventLog, set_up_logging
from broker.process.stall_monitor import StallMonitor
from broker.security.tls.errors import BadTls
from broker.shared.engines import store_of
from broker.together.serving import serve_together
from broker.upkeep.long_lived import LongLived
from storage.checkpoints import UnreadableDataFolder
from storage.log import StorageFailed
from storage.shared.store import StartRefused

if TYPE_CHECKING:
    from broker.console_process import ConsoleProcess
    from broker.control.channel import Control
    from broker.faults.control import Faults
    from broker.http.serving import HttpSide
    from broker.tracing.exporting import Exporting

OK, FAILED, NOT_STARTED = 0, 1, 2
HURRIED_DRAIN_S = 0.1
SWITCH_INTERVAL_S = 0.001
"""How long a thread that computes (it opens a log, writes a snapshot) keeps the interpreter from the loop. The loop
lets go of it with each call of the system, and Python's own 5 ms would be waited for several times in a turn."""
LAST_WORDS_S = 2.0
"""How long the end waits for somebody to read the log."""

_log = EventLog("main")


def main(arguments: Sequence[str]) -> int:
    """Run a broker until a signal or a failure ends it."""
    options = parser().parse_args(arguments)
    writer = set_up_logging(options.log_level, as_json=options.log_format == "json")
    raise_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        config = _configuration(options)
        for sentence in config.warnings:
            _log.warning(sentence)
        if path := config.get_str(ADVERTISED_FILE):
            told = wait_for_line(path)
            if told is None:
                return OK
            options.advertised_listeners = told
            config = _configuration(options)
        failure = _run(config, options)
        if isinstance(failure, StartRefused):
            raise failure
        if failure is not None:
            writer.say(f"tallystick: stopped, because storage failed: {failure}")
            return FAILED
    except (ConfigError, BadListener, BadTls, DataFolderLocked, UnreadableDataFolder, StartRefused) as problem:
        writer.say(f"tallystick: {problem}")
        return NOT_STARTED
    except (StorageFailed, OSError) as problem:
        writer.say(f"tallystick: storage failed: {problem}")
        return FAILED
    finally:
        writer.finish(LAST_WORDS_S)
    return OK


def parser() -> argparse.ArgumentParser:
    """The flags."""
    found = argparse.ArgumentParser(
        prog="tallystick serve", description="Run a broker.", allow_abbrev=False, add_help=True
    )
    add = found.add_argument
    add("--data-dir", metavar="DIR", help="where the data is (default ./data)")
    add("--host", help="address to listen on (default 127.0.0.1)")
    add("--port", type=int, help="port to listen on (default 9092; 0 picks a free one)")
    add("--listeners", help="NAME://host:port,… instead of --host and --port")
    add("--advertised-listeners", help="what clients are told to connect to, where it differs")
    add("--advertised-listeners-file", metavar="FILE", help="wait for a file that says so, and ends its line")
    add("--config", metavar="FILE", help="a server.properties file")
    add("--set", metavar="KEY=VALUE", action="append", default=[], help="one setting; may be given many times")
    add("--durability", choices=("fsync", "page-cache"), help="what an acknowledgement means (default fsync)")
    add("--store", metavar="URL", help="a database to keep everything in, instead of a folder: postgresql://…")
    add("--in-memory", action="store_true", help="keep everything in memory; nothing is left afterwards")
    add("--nodes", metavar="N", type=int, help="so many nodes in this process, in memory, for tests of clients")
    add("--repair", metavar="LOG", action="append", help="go on without what is damaged: topic-partition or a file")
    add("--add-scram", metavar="USER", action="append", help="a first user: SCRAM-SHA-256=[name=NAME,password=SECRET]")
    add("--ready-file", metavar="PATH", help="written when requests are served; holds the bootstrap address")
    add("--http", metavar="HOST:PORT", help="tell health and metrics over HTTP there (port 0 picks a free one)")
    add("--http-token-file", metavar="FILE", help="a token that HTTP requests have to carry")
    add("--http-trusted-network", action="store_true", help="listen for HTTP without a token where others reach it")
    add(
        "--console",
        metavar="HOST:PORT",
        nargs="?",
        const="127.0.0.1:8080",
        help="serve a page about the cluster (default 127.0.0.1:8080)",
    )
    add("--console-config", metavar="FILE", help="a client's settings, where the console needs some (a trust store)")
    add("--http-control", action="store_true", help="let HTTP clients break it and move its clock, for tests")
    add("--control-fd", metavar="FD", type=int, help="a socket on which whoever starts this may break it, for tests")
    add("--log-level", choices=tuple(LEVELS), default="info")
    add("--log-format", choices=("text", "json"), default="text")
    return found


def _configuration(options: argparse.Namespace) -> BrokerConfig:
    """Flags over --set over environment over file."""
    properties = None
    if options.config is not None:
        try:
            with open(options.config, encoding="utf-8") as source:
                properties = source.read()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{options.config} cannot be read: {error}") from error
    flags = {
        "log.dirs": options.data_dir,
        "tallystick.durability": options.durability,
        "tallystick.store": options.store,
        "tallystick.in.memory": "true" if options.in_memory else None,
        "tallystick.nodes": None if options.nodes is None else str(options.nodes),
        "tallystick.repair": ",".join(options.repair) if options.repair else None,
        "tallystick.add.scram": " ".join(options.add_scram) if options.add_scram else None,
        "tallystick.http": options.http,
        "tallystick.http.token.file": options.http_token_file,
        "tallystick.http.trusted.network": "true" if options.http_trusted_network else None,
        "tallystick.console": options.console,
        "tallystick.console.config": options.console_config,
        "tallystick.http.control": "true" if options.http_control else None,
        "listeners": options.listeners,
        "advertised.listeners": options.advertised_listeners,
        ADVERTISED_FILE: options.advertised_listeners_file,
    }
    if options.listeners is None and (options.host is not None or options.port is not None):
        host = options.host if options.host is not None else "127.0.0.1"
        host = f"[{host}]" if ":" in host else host
        flags["listeners"] = f"PLAINTEXT://{host}:{9092 if options.port is None else options.port}"
    return BrokerConfig.from_sources(
        properties=properties,
        properties_path=options.config or "",
        environment=os.environ,
        settings=options.set,
        flags={name: value for name, value in flags.items() if value is not None},
    )


def _run(config: BrokerConfig, options: argparse.Namespace) -> BaseException | None:
    """Serve until the end; what ended it, if that was no signal."""
    files = LocalFiles(config.data_folder) if config.has_files else None
    control = _control(config, options.control_fd)
    environment = RealEnvironment(files) if control is None else control.environment(files)
    try:
        with asyncio.Runner(loop_factory=_new_loop if control is None else control.new_loop) as runner:
            return runner.run(_serve(config, environment, options.ready_file, control))
    finally:
        environment.close()
        if files is not None:
            files.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


async def _serve(
    config: BrokerConfig, environment: RealEnvironment, ready_file: str | None, control: "Control | None"
) -> BaseException | None:
    starting.check_ready_file(ready_file)
    stop, hurry = asyncio.Event(), asyncio.Event()
    _catch_signals(stop, hurry)
    faults = _faults(always=control is not None)
    traces = _traces(config)
    if config.node_count > 1:
        return await serve_together(
            config,
            environment,
            control=control,
            faults=faults,
            traces=traces,
            signals=(stop, hurry),
            monitor=_watch_the_loop(config),
            announce=lambda bound: _announce(config, bound, ready_file, None),
        )
    traced = None if traces is None else traces.waiting.take
    store = store_of(config)
    node = Node(config, environment, on_failure=lambda _: stop.set(), faults=faults, traced=traced, store=store)
    try:
        async with starting.leaving_where_it_fails(node):
            if await starting.reached_store(node, stop):
                await _serve_as(node, environment, ready_file, control, (stop, hurry), traces)
    finally:
        if store is not None:  # What is under way in it must be let go: to cancel it would ask for it to be cancelled.
            await store.close()
    return node.failure


async def _serve_as(
    node: Node,
    environment: RealEnvironment,
    ready_file: str | None,
    control: "Control | None",
    signals: tuple[asyncio.Event, asyncio.Event],
    traces: "Exporting | None",
) -> None:
    """Everything around a node, until it is to stop. `signals` ask for an orderly end, and for a quick one."""
    (stop, hurry), config, faults = signals, node.config, node.faults
    console = console_of(config)
    listening = bind_all(config.listeners, SocketSettings.of(config, backlog(config)))
    http = _http(config)
    endpoints = advertised([bound.endpoint for bound in listening], config.advertised_listeners)
    services = await starting.started(node.start(endpoints), node, stop)
    if services is None:
        return
    try:
        tls = await starting.tls_of(config, environment)
    except (ConfigError, BadTls):
        await node.stop()
        raise
    if http is not None:
        http.measure(node)
    server = Server(services, node.catalogue, listening, node, tls)
    bound = await server.start()
    beside = [asyncio.create_task(LongLived(services.topics).keep_out_of_sight())]
    if tls is not None:
        beside.append(asyncio.create_task(tls.keep_current()))
    controlled = None if control is None or faults is None else control.of(faults, lambda: [services])
    if control is not None and controlled is not None:
        beside.append(asyncio.create_task(control.obey(controlled, stop)))
    monitor = _watch_the_loop(config)
    if http is not None:
        await http.start(node, server, monitor, controlled if config.get_bool("tallystick.http.control") else None)
    if console is not None:
        await console.start(bound, ready_file, None if http is None else http.url)
    gc.enable()
    _announce(config, bound, ready_file, None if http is None else http.url)
    await stop.wait()
    for task in beside:
        task.cancel()
    if monitor is not None:
        monitor.stop()
    await _end_around(node, server, hurry, traces, console, http)


async def _end_around(
    node: Node,
    server: Server,
    hurry: asyncio.Event,
    traces: "Exporting | None",
    console: "ConsoleProcess | None",
    http: "HttpSide | None",
) -> None:
    if console is not None:
        await console.stop()
    if http is not None:
        http.broker_stops()
    await _end(node, server, hurry, traces)
    if http is not None:
        http.stop()


async def _end(node: Node, server: Server, hurry: asyncio.Event, traces: "Exporting | None") -> None:
    """In order, or after a failure as quickly as it can be."""
    if node.failure is None:
        _log.info("stopping", connections=server.connection_count)
        await server.stop(hurry=hurry)
        await starting.stop_unless_hurried(node, hurry)
    else:
        await server.stop(HURRIED_DRAIN_S)
        node.abandon()
    if traces is not None:
        traces.stop()
    if node.failure is None:
        _log.info("stopped")


def _http(config: BrokerConfig) -> "HttpSide | None":
    """The HTTP side, where it is asked for, with its port taken; never imported otherwise. Raises `ConfigError`, or
    `BadListener`."""
    if not config.get_str("tallystick.http").strip():
        return None
    try:
        from broker.http.serving import HttpSide
    except ModuleNotFoundError as missing:
        raise ConfigError(f"tallystick.http needs {missing.name}: pip install 'tallystick[http]'.") from None
    return HttpSide(config)


def _traces(config: BrokerConfig) -> "Exporting | None":
    """Traces of transactions, where a collector is named; never imported otherwise. Raises `ConfigError`."""
    from broker.tracing.destination import destination, refuse

    address = destination(config, os.environ)
    if address is None:
        return None
    try:
        from broker.tracing.exporting import Exporting
    except ModuleNotFoundError as missing:
        refuse(config, f"traces need {missing.name}: pip install 'tallystick[traces]'.")
        return None
    return Exporting.to(address, config.node_id)


def _watch_the_loop(config: BrokerConfig) -> StallMonitor | None:
    """Count turns that take too long; SIGUSR1 asks for the count."""
    threshold_ms = config.get_int("tallystick.stall.threshold.ms")
    if not threshold_ms:
        return None
    monitor = StallMonitor(threshold_ms)
    monitor.start()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, monitor.report)
    return monitor


def _control(config: BrokerConfig, descriptor: int | None) -> "Control | None":
    """What whoever started this process may do to it; never imported otherwise. Raises `ConfigError`."""
    over_http = config.get_bool("tallystick.http.control")
    if over_http and not config.get_str("tallystick.http").strip():
        raise ConfigError("tallystick.http.control: there is no HTTP side (tallystick.http, --http).")
    if descriptor is None and not over_http:
        return None
    from broker.control.channel import Control

    return Control(descriptor)


def _faults(*, always: bool) -> "Faults | None":
    """Fault points, where the environment asks for them (docs/faults.md); never imported otherwise."""
    text = os.environ.get("TALLYSTICK_FAULTS", "" if always else None)
    if text is None:
        return None
    from broker.api.api_families import load_handlers
    from broker.faults.control import Faults

    load_handlers()
    _log.warning("fault points are in, this broker may be made to fail", armed=text)
    return Faults(OwnProcess(), text)


def _catch_signals(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """The first signal asks for an orderly end; the second for one that waits for nobody. One that came before this was
    kept back (`tallystick.__main__`)."""

    def caught() -> None:
        if stop.is_set():
            hurry.set()
        stop.set()

    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, caught)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))


def _announce(config: BrokerConfig, bound: Sequence[Endpoint], ready_file: str | None, http_url: str | None) -> None:
    """One line for people, and for programs the ready file, with one for the HTTP side beside it."""
    addresses = ",".join(str(endpoint) for endpoint in bound)
    where = "memory" if config.in_memory else config.place
    durability = "page-cache" if config.page_cache else "store" if config.store else "fsync"
    http = "" if http_url is None else f"; {http_url}"
    core = "; compiled core" if compiled_modules() else ""
    sys.stdout.write(f"tallystick listens on {addresses}; data in {where}; durability {durability}{core}{http}\n")
    sys.stdout.flush()
    if ready_file is not None:
        bootstrap = ",".join(str(reachable(endpoint)) for endpoint in bound)
        if http_url is not None:
            _write(ready_file + ".http", http_url)
        _write(ready_file, bootstrap)


def _write(path: str, line: str) -> None:
    with open(path + ".new", "w", encoding="ascii") as target:
        target.write(line + "\n")
    os.replace(path + ".new", path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
