"""See `tests.mutants.over_a_store.run`."""

from tests.mutants.over_a_store.run import enter

if __name__ == "__main__":
    enter()
