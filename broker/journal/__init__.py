"""journal: what clients did with their transactions a while ago, and how they use the broker; in memory, bounded.

`peers` who they are, with what is counted of each; `events` what happened to one transactional id; `journal` keeps and
bounds both; `fences` who raised an epoch, and who was turned away for it; `groups` what is counted of groups and of the
names that programs make up; `noted_transactions` tells it what the coordinator wrote; `reading` says it as JSON can;
`advice` what clients had better do otherwise.

No record is looked into, nothing is written to a disk: a restart forgets, and every answer says since when it knows.
"""
