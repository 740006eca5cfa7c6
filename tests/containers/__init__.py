"""Containers of the image: the modules for Testcontainers, and the compose files. `make test-containers` runs it."""
