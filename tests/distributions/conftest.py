"""A PostgreSQL for what is started over one, as in the tests of stores."""

from tests.shared_store.conftest import postgresql

__all__ = ["postgresql"]
