"""control: what the program that started a broker for its tests may do to it, while it runs.

`channel` lines of JSON over a socket that is handed down; `commands` what may be asked for; `moved_clock` a clock that
goes forward on demand. Absent unless `--control-fd` asks for it.
"""
