"""What the programs here share: their arguments and how they say what became of a check.

Arguments: BOOTSTRAP PREFIX RECORDS light|full.
"""
import os
import sys
import time

BOOTSTRAP, PREFIX, RECORDS, FULL = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "full"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
# The timestamp of record 0, in milliseconds.
EPOCH = 1_700_000_000_000


class Skip(Exception):
    """A check cannot be made here."""


def check(name, work):
    try:
        work()
        print("ok", name, flush=True)
    except Skip as why:
        print("skip %s: %s" % (name, why), flush=True)
    except Exception as error:  # every check is judged alone
        print("FAIL %s: %s" % (name, repr(error).replace("\n", " ")), flush=True)


def name_of(work):
    """A check's name, of its function's."""
    return work.__name__.replace("_", " ")


def until(what, holds):
    end = time.time() + 20
    while not holds():
        assert time.time() < end, "never: " + what
        time.sleep(0.02)


def restart():
    """Has the broker stopped and started again."""
    print("restart", flush=True)
    answer = sys.stdin.readline().strip()
    assert answer and not answer.startswith("failed"), answer
    if answer != "restarted":
        raise Skip(answer)


def ends():
    """The offsets after the last of RECORDS records, dealt to three partitions in turn."""
    return [(RECORDS + 2 - partition) // 3 for partition in range(3)]


def done():
    print("done", flush=True)
    # Threads that a client has left do not hold the end up.
    os._exit(0)
