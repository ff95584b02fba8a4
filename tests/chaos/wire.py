"""A slow wire: passes frames between two interfaces, late, and loses some. wire.py CABLE TAP DELAY_MS LOSS_PERCENT

Each way takes half of DELAY_MS. Frames keep the header that says how they are to be cut into packets and summed
(virtio_net_hdr), so one loss takes a whole burst: it is harsher than the number says. Prints "ready".
"""

import collections
import fcntl
import os
import random
import select
import socket
import struct
import sys
import time

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x2, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 = 1, 2, 4
ETH_P_ALL, SOL_PACKET = 3, 263
PACKET_ADD_MEMBERSHIP, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, PACKET_MR_PROMISC = 1, 15, 23, 1
MOST_QUEUED = 2000  # frames; what comes beyond is lost, as in a router


def open_tap(name):
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)
    return tap


def open_cable(name):
    cable = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETH_P_ALL))
    cable.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    cable.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    cable.bind((name, ETH_P_ALL))
    cable.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP,
                     struct.pack("iHH8x", socket.if_nametoindex(name), PACKET_MR_PROMISC, 0))
    return cable.detach()


def main():
    cable, tap = open_cable(sys.argv[1]), open_tap(sys.argv[2])
    delay, loss = float(sys.argv[3]) / 2000, float(sys.argv[4]) / 100
    queue = collections.deque()  # (when due, to where, frame): the same delay for all keeps their order
    print("ready", flush=True)
    while True:
        wait = max(queue[0][0] - time.monotonic(), 0) if queue else 60
        readable, _, _ = select.select([cable, tap], [], [], wait)
        now = time.monotonic()
        for source in readable:
            try:
                frame = os.read(source, 80000)
            except OSError:  # the interface is down for a moment
                continue
            if random.random() >= loss and len(queue) < MOST_QUEUED:
                queue.append((now + delay, tap if source == cable else cable, frame))
        while queue and queue[0][0] <= now:
            _, target, frame = queue.popleft()
            try:
                os.write(target, frame)
            except OSError:  # full, or gone: lost
                continue


main()
