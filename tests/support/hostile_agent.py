#!/usr/bin/env -S python3 -I -S
"""A job's agent on a host that means harm: what it says is that of the job's own agent, `agent.real` beside this file, but for what the file
`harm` there says. "endless": output without an end or a newline, whatever credit was given. "name": master:0 has a path for a name."""

import json
import os
import struct
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
PIECE_BYTES = 32 * 1024
PATH = "../../../harm:0"
JSON_FORM = 4


def read_frame(stream):
    """(header, payload); (None, None) at the end."""
    length = stream.read(4)
    if len(length) < 4:
        return None, None
    frame = stream.read(struct.unpack(">I", length)[0])
    [header_bytes] = struct.unpack(">I", frame[1:5])
    return json.loads(frame[5:5 + header_bytes]), frame[5 + header_bytes:]


def write_frame(stream, header, payload=b""):
    text = json.dumps(header).encode()
    stream.write(struct.pack(">IBI", 5 + len(text) + len(payload), JSON_FORM, len(text)) + text + payload)
    stream.flush()


def flood(request, out):
    offset = 0
    while True:
        segments = [[1, PIECE_BYTES, 1, 1, 0]]
        write_frame(out, {"t": "log", "id": request, "b": {"offset": offset, "segments": segments}}, b"x" * PIECE_BYTES)
        offset += PIECE_BYTES


def main():
    with open(f"{HERE}/harm", encoding="utf-8") as file:
        harm = file.read()
    real = subprocess.Popen([f"{HERE}/agent.real", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask():
        while True:
            header, payload = read_frame(sys.stdin.buffer)
            if header is None:
                os._exit(0)
            if harm == "endless" and header["t"] == "read_log":
                threading.Thread(target=flood, args=(header["id"], sys.stdout.buffer), daemon=True).start()
            elif harm != "endless" or header["t"] != "credit":
                write_frame(real.stdin, header, payload)

    threading.Thread(target=ask, daemon=True).start()
    while True:
        header, payload = read_frame(real.stdout)
        if header is None:
            return
        if harm == "name":
            header = json.loads(json.dumps(header).replace("master:0", PATH))
        write_frame(sys.stdout.buffer, header, payload)


if __name__ == "__main__":
    main()
