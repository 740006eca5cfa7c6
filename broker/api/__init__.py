"""api: the catalogue of APIs, dispatch, the handlers, fetch sessions and long polls."""
