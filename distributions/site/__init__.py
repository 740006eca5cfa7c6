"""distributions.site: makes a site of docs/, README.md and CHANGELOG.md (`make docs-site`)."""
