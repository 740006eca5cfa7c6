"""See `tests.mutants.run`."""

from tests.mutants.run import enter

if __name__ == "__main__":
    enter()
