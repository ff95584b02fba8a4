"""A task for the test of followers: its share of numbered lines, then it fails; the third start ends with 0.

    lines.py DIARY LINES SECONDS
"""

import os
import sys
import time

from task import take_number, take_lock

STARTS = 3
AT_ONCE = 50


def line(task, number):
    return f"{task} {number:7} \r\N{LATIN SMALL LETTER E WITH ACUTE}\N{CHECK MARK}\N{SNOWMAN} {number % 100:2} %\n".encode()


def share(task, start, lines):
    first, last = lines * (start - 1) // STARTS, lines * start // STARTS
    return [line(task, number) for number in range(first, last)]


def main():
    os.umask(0)
    diary, lines, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    task = os.environ["TFDIST_TASK"]
    start = take_number(diary, task)
    lock = take_lock(diary, task, start, {})
    mine = share(task, start, lines)
    began = time.monotonic()
    for at in range(0, len(mine), AT_ONCE):
        rest = memoryview(b"".join(mine[at:at + AT_ONCE]))
        while rest:  # a pipe that is full takes a part
            rest = rest[os.write(1, rest):]
        time.sleep(max(began + seconds / STARTS * at / len(mine) - time.monotonic(), 0))
    os.close(lock)
    os._exit(0 if start == STARTS else 3)


if __name__ == "__main__":
    main()
