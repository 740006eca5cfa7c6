"""files: commands on the machine of a broker that read its files, or copy them."""
