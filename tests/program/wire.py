# SPDX-License-Identifier: Apache-2.0
"""Enough of the wire format (docs/reference/wire_format.md) to be a stranger on a run's network."""
import os, re, socket, struct, threading

MASK = (1 << 64) - 1
PRIME = 0x9E3779B97F4A7C15
LANES = [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89, 0x452821E638D01377, 0xBE5466CF34E90C6C,
         0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917]
HEARTBEAT, REFUSED, CONTROL, MEET, WANT, TAKE, ASK, TOLD = 3, 12, 14, 15, 16, 17, 20, 21
MAGIC = 0x59575343


def scramble(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def hash_bytes(data, seed=0):
    """As causeway/core/hash.hpp, of one piece."""
    lanes = [lane ^ seed for lane in LANES]
    for at in range(0, len(data), 64):
        for i, word in enumerate(struct.unpack("<8Q", data[at:at + 64].ljust(64, b"\0"))):
            lane = (lanes[i] ^ word) * PRIME & MASK
            lanes[i] = lane ^ (lane >> 29)
    h = len(data) * PRIME & MASK
    for lane in lanes:
        h = (scramble(h ^ lane) + PRIME) & MASK
    return scramble(h)


def run_id(name, seed=1):
    return hash_bytes(name.encode(), seed) | 1


def version():
    """Of the protocol, as the sources have it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "include", "causeway", "net", "frame.hpp")
    with open(path) as f:
        return int(re.search(r"protocol_version = (\d+)", f.read()).group(1))


class Connection:
    def __init__(self, address, run):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.run, self.version = run, version()

    def say(self, kind, body=b"", sender=0):
        header = struct.pack("<IHBBQIIIIQQQQQ", MAGIC, self.version, kind, 0, self.run, 0, sender, 0, len(body), 0, 0, 0, 0, 0)
        self.socket.sendall(header + struct.pack("<Q", hash_bytes(header, MAGIC)) + body)

    def control(self, message, sender, sequence=0):
        """A control message, whole."""
        header = struct.pack("<IHBBQIIIIQQQQQ", MAGIC, self.version, CONTROL, 1, self.run, 0, sender, 0, len(message), 0, 0, sequence, len(message), 0)
        self.socket.sendall(header + struct.pack("<QQ", hash_bytes(header, MAGIC), hash_bytes(message)) + message)

    def hear(self):
        """Kind, run and body of the next frame."""
        header = self.exactly(80)
        kind, run, length = header[6], *struct.unpack_from("<Q", header, 8), *struct.unpack_from("<I", header, 28)
        return kind, run, self.exactly(length)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise EOFError("the other side hung up")
            data += more
        return data


class SilentStranger:
    """Has a link to a peer of a changing run, and says nothing on it but that it lives, unless it is told to."""
    ID = (1 << 62) + 1  # larger than the other's, which then decides that this connection is the link

    def __init__(self, address, run):
        self.wire = Connection(address, run)
        self.wire.say(MEET, struct.pack("<QQQIII", self.ID, 7, 99, 1, 1 << 16, 0) + struct.pack("<H", 1))
        kind, _, body = self.wire.hear()
        assert kind == MEET, (kind, body)
        nonce, = struct.unpack_from("<Q", body, 16)
        self.wire.say(WANT, struct.pack("<QQB", nonce, 0, 0))
        kind, _, body = self.wire.hear()
        assert kind == TAKE and struct.unpack_from("<Q", body, 8)[0] != 0, (kind, body)
        self.over = threading.Event()
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.live, self.drain)]
        for t in self.threads:
            t.start()

    def live(self):
        try:
            while not self.over.wait(0.5):
                self.wire.say(HEARTBEAT, sender=self.ID & 0xFFFFFFFF)
        except OSError:
            pass

    def drain(self):
        try:
            while self.wire.socket.recv(1 << 16):
                pass
        except OSError:
            pass

    def tell(self, message):
        self.wire.control(message, self.ID & 0xFFFFFFFF)

    def close(self):
        self.over.set()
        self.wire.socket.close()
