"""Somebody without a key: zmtp_stranger.py ADDRESS PORT

Greets as a ZMTP 3.1 peer without security (RFC 37/ZMTP), sends READY and a message, and prints how much comes
back until the other side hangs up, or 2 s have gone.
"""

import socket
import sys
import time

GREETING = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" + b"\0" * 31
_READY_BODY = b"\x05READY" + b"\x0bSocket-Type" + b"\0\0\0\x06" + b"DEALER"
READY = bytes([4, len(_READY_BODY)]) + _READY_BODY
MESSAGE = b"\0\x05hello"


def read_until(connection, count, deadline):
    got = b""
    while len(got) < count and time.monotonic() < deadline:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            piece = connection.recv(count - len(got))
        except (socket.timeout, ConnectionResetError):
            break
        if not piece:
            break
        got += piece
    return got


def main():
    deadline = time.monotonic() + 2
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 2) as connection:
        connection.sendall(GREETING)
        greeting = read_until(connection, 64, deadline)
        try:
            connection.sendall(READY + MESSAGE)
        except (BrokenPipeError, ConnectionResetError):
            pass
        rest = read_until(connection, 1 << 16, deadline)
    print(f"greeting {len(greeting)}, then {len(rest)} bytes")


main()
