"""The invariants of the broker in a sentence each, and the defects of others that it must not have."""

INVARIANTS = {
    "I01": "A producer id with its epoch is given to one instance; epochs never go down, ids never come twice.",
    "I02": "Only the legal transitions are ever in the transaction log, and every prefix of it loads.",
    "I03": "After a failed append an id is usable again.",
    "I04": "The decision is durable before any marker, every marker before the completion; all partitions end alike.",
    "I05": "What EndTxn answered comes true in every partition; what it did not answer ends one way.",
    "I06": "The new EndTxn: a retry gets the identity of the first answer, the opposite is refused; every cell.",
    "I07": "The classic EndTxn: every cell of its table, and the error codes that each version knows.",
    "I08": "A late or doubled EndTxn ends no other transaction; with the classic protocol it does, and we say so.",
    "I09": "When epochs are used up the producer id rotates once, and nobody sees a negative or a 32767th epoch.",
    "I10": "A fence that fails uses up no epoch.",
    "I11": "A zombie is fenced everywhere, and what it had under way becomes visible to nobody.",
    "I12": "A timeout aborts and bumps the epoch; a client of the new protocol recovers, one of the classic is fenced.",
    "I13": "Partitions are added all or none.",
    "I14": "A coordinator that loads again knows what it knew; decided transactions end without their client.",
    "I15": "What an older incarnation left under way has no effect.",
    "I16": "A completion is written once.",
    "I17": "A topic that is deleted does not keep a transaction from ending; its successor never gets the marker.",
    "I18": "Ids that nobody uses expire, with a tombstone; open and decided ones never do.",
    "I19": "Clients of both protocols on one id, and clusters that change their version, fence and never mix.",
    "I20": "Adding and verifying check id, epoch and partition; nothing under way hides a verification.",
    "I21": "Repeated and reordered requests leave every record in the log once, and duplicates learn the first offset.",
    "I22": "A refused append changes nothing that is known of its producer.",
    "I23": "Sequences go on from 2147483647 to 0, within a batch and between two.",
    "I24": "After a crash at any byte, producer state is what the log says.",
    "I25": "No transactional record is in a log whose coordinator does not know of it.",
    "I26": "A verification that a marker has overtaken is worth nothing.",
    "I27": "Markers may come again, and change nothing; a late one does not end the next transaction.",
    "I28": "Markers of an older coordinator epoch are refused.",
    "I29": "The last stable offset is not above the high watermark, never goes back, and bounds what is read.",
    "I30": "Whatever is read from wherever, a reader can leave out exactly the aborted records.",
    "I31": "If the index of aborted transactions cannot be written, the last stable offset stays.",
    "I32": "ListOffsets for read_committed stops at the last stable offset.",
    "I33": "Producers with an open transaction are never forgotten, idle ones are, old timestamps or not.",
    "I34": "Compaction changes nothing that a read_committed reader knows, and keeps what fencing and duplicates need.",
    "I35": "Batches that are wrong, mixed, or say that they are control batches are refused.",
    "I36": "Recovery takes whatever the log holds.",
    "I37": "Offsets and records of a transaction become visible together.",
    "I38": "Who wants stable offsets is told to come again exactly while one is pending.",
    "I39": "Of plain and transactional commits the later record wins, live and after a reload.",
    "I40": "Expiry and deletion bring no pending offset back and lose none that is committed later.",
    "I41": "A commit by the wrong member or generation leaves nothing pending.",
    "I42": "A marker on offsets is answered when they have their new values.",
    "I43": "Members are checked after the transaction, in one step with the write.",
    "I44": "When all is well again nobody stays stuck.",
    "I45": "A connection that is lost stops no transition half way.",
    "I46": "Requests of a connection are done, and answered, in their order.",
    "I47": "What is on the wire and on the disk is Kafka's, byte for byte.",
    "I48": "No transaction stays open that nobody will end.",
    "I49": "Histories of kills, pauses, clocks and full disks show no anomaly.",
    "I50": "A start finds no orphan, and ends one that was planted.",
}

KNOWN_DEFECTS = [
    *(
        f"KAFKA-{number}"
        for number in (
            *(17754, 14402, 14884, 14904, 14920, 18202, 18575, 18654, 18660, 18464, 18401, 18227, 19367, 19446, 19999),
            *(20090, 20310, 20322, 16992, 18019, 9144, 12671, 5880, 5351, 5416, 6119, 7519, 9600, 9666, 9749, 9777),
            *(10080, 16352, 9065, 7286, 9307, 9235, 18137, 13099, 14880, 14417, 20031, 20114, 5322, 5610, 5415, 8803),
            *(6683, 7692, 7866, 9807, 9892, 12153, 12964, 13194, 13727, 8351, 8335, 6854, 7467, 6003, 10702, 5376),
            *(5522, 19690, 5494, 7298, 19821, 18723, 17507, 19163, 15784, 16386, 18060, 19862, 18672, 7296),
        )
    ),
    *("CORE-16998", "CORE-17000", "Redpanda #6423", "Redpanda #6018", "Redpanda #3501", "Redpanda PR #7544"),
    *("KoP #1283", "KoP PR #79"),
]

NOT_HERE = {
    "KAFKA-12153": "Logs are truncated by recovery alone, before anybody may read them.",
    "KAFKA-19821": "A duplicate is answered with its first offset, which clients see; no line of a log is promised.",
}
"""Defects whose place does not exist here, be it one node or several."""
