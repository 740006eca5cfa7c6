"""See `tests.simulation.run`."""

from tests.simulation.run import enter

if __name__ == "__main__":
    enter()
