"""The console in a real Chromium: `make test-console`."""
