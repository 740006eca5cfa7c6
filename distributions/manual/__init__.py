"""manual: what every command is, told from the commands themselves.

`described` commands, options and statuses as values; `markdown` the page `docs/commands.md`; `roff` pages for `man`
`python -m distributions.manual FOLDER` writes the pages for `man`
"""
