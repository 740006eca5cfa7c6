"""The routes of the HTTP side, a file for each family; `families` lists them."""
