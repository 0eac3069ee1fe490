"""A TCP proxy on 127.0.0.1 between a program under test and its server: a network to be cut.

It forwards until told otherwise: cut() resets every connection and refuses new ones, hold() takes
bytes and passes none on, slow(seconds) passes each chunk on that much later. heal() ends all three.
Has a thread of its own; every method may be called from any other.
"""

import asyncio
import contextlib
import socket
import struct
import threading

from services import free_port

CHUNK_BYTES = 65536
LINGER_NONE = struct.pack("ii", 1, 0)  # close() sends a reset


class TcpProxy:
    def __init__(self, target_port=None):
        self.port = free_port()
        self.target_port = target_port  # may be set before the first connection
        self.delay_s = 0.0
        self.writers = set()
        self.server = None
        self.loop = asyncio.new_event_loop()
        self.gate = asyncio.Event()
        self.gate.set()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self._call(self._listen())

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def cut(self):
        self._call(self._cut())

    def hold(self):
        self._call(self._set_gate(False))

    def slow(self, delay_s):
        self.delay_s = delay_s

    def heal(self):
        self.delay_s = 0.0
        self._call(self._set_gate(True))
        self._call(self._listen())

    def close(self):
        self._call(self._cut())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    async def _listen(self):
        if self.server is None:
            self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port,
                                                     reuse_address=True)

    async def _cut(self):
        if self.server is not None:
            self.server.close()
            self.server = None
        for writer in list(self.writers):
            link = writer.get_extra_info("socket")
            if link is not None:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            writer.transport.abort()
        self.writers.clear()

    async def _set_gate(self, is_open):
        if is_open:
            self.gate.set()
        else:
            self.gate.clear()

    async def _serve(self, reader, writer):
        self.writers.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            self.writers.discard(writer)
            writer.transport.abort()
            return
        self.writers.add(back)
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader, writer):
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if self.delay_s > 0:
                    await asyncio.sleep(self.delay_s)
                await self.gate.wait()
                writer.write(chunk)
                await writer.drain()
        self.writers.discard(writer)
        writer.close()
