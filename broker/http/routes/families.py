"""All families of routes. Another one is a file with `Operation`s, and a line here."""

from broker.http.operation import Operation
from broker.http.routes import backups, control, groups, health, journal, metrics, openapi


def all_operations() -> list[Operation]:
    """What is served, in the order in which the OpenAPI document lists it."""
    operations = [*health.ROUTES, *metrics.ROUTES, *journal.ROUTES, *groups.ROUTES, *backups.ROUTES]
    operations += control.controlling()
    return [*operations, openapi.describing(operations)]
