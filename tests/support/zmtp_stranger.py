"""Somebody without a key: zmtp_stranger.py ADDRESS PORT

Greets as a ZMTP 3.1 peer without security (RFC 37/ZMTP), sends READY and a message, and prints how many bytes
come back until the other side hangs up, or 5 s have gone. A peer's own greeting has 64 bytes, and no secret; one that
hangs up at once may get fewer of them through.
"""

import socket
import sys
import time

GREETING = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" + b"\0" * 31
_READY_BODY = b"\x05READY" + b"\x0bSocket-Type" + b"\0\0\0\x06" + b"DEALER"
READY = bytes([4, len(_READY_BODY)]) + _READY_BODY
MESSAGE = b"\0\x05hello"


def read_all(connection, deadline):
    got = 0
    while time.monotonic() < deadline:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            piece = connection.recv(1 << 16)
        except (socket.timeout, ConnectionResetError):
            break
        if not piece:
            break
        got += len(piece)
    return got


def main():
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 20) as connection:
        try:
            connection.sendall(GREETING + READY + MESSAGE)
        except (BrokenPipeError, ConnectionResetError):
            pass
        print(read_all(connection, time.monotonic() + 5))


main()
