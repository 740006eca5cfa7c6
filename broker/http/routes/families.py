"""All families of routes. Another one is a file with a `routes` of `Operation`s, and a line here."""

from broker.http.operation import Operation
from broker.http.routes import health, journal, openapi


def all_operations() -> list[Operation]:
    """What is served, in the order in which the OpenAPI document lists it."""
    operations = [*health.ROUTES, *journal.ROUTES]
    return [*operations, openapi.describing(operations)]
