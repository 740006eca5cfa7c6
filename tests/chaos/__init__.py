"""Real processes, killed and frozen: at every fault point, and at random under load of real clients."""
