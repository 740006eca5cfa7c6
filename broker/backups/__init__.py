"""backups: what `tallystick backup` and `tallystick restore` do, in a process of their own, with or without a broker.

`source` says which bytes are the data folder of a moment, `asking` has a running broker hold on to them, `target` is
the folder that backups are in, `pieces` and `manifest` what is in it, `copying` makes a backup, `restoring` a data
folder, `pruning` deletes and looks for damage.
"""
