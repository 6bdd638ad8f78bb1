"""Whatever bytes come, the webhook goes on listening, and says nothing that it was sent."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.examples import examples
from unit.kube.webhook.callers import BEARER, World, ended, listening
from unit.kube.webhook.payloads import payload

HEAD = f"POST /alerts HTTP/1.1\r\nHost: x\r\n{BEARER}\r\n".encode()
MARK = b"seen-nowhere"

NOISE = st.one_of(
    st.binary(max_size=500),
    st.binary(max_size=500).map(lambda noise: HEAD + noise + b"\r\n\r\n"),
    st.tuples(st.integers(-1, 10**20), st.binary(max_size=500)).map(
        lambda said: HEAD + f"Content-Length: {said[0]}\r\n\r\n".encode() + said[1]
    ),
    st.lists(st.tuples(st.integers(0, 2**20), st.binary(max_size=99)), max_size=5).map(
        lambda chunks: (
            HEAD
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"".join(f"{size:x}\r\n".encode() + noise + b"\r\n" for size, noise in chunks)
        )
    ),
)


async def _through(noises: list[bytes], world: World) -> None:
    for noise in noises:
        reader, writer = await world.connect()
        with suppress(ConnectionError):
            writer.write(noise + MARK)
            writer.write_eof()
            await writer.drain()
        answer = await ended(reader, writer)
        assert answer.status in (0, 400, 401, 404, 405, 408, 413, 415)
    world.now += 100
    assert (await world.post(payload())).status == 202


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NOISE, min_size=1, max_size=5))
def test_noise_neither_stops_it_nor_is_repeated(
    caplog: pytest.LogCaptureFixture, tmp_path_factory: pytest.TempPathFactory, noises: list[bytes]
) -> None:
    token = tmp_path_factory.getbasetemp() / "noise-token"
    token.write_text(BEARER.rpartition(" ")[2])

    async def story() -> None:
        async with listening(token) as world:
            await _through(noises, world)
            assert world.woken == [("kafka", "prod")]

    caplog.clear()
    caplog.set_level(logging.DEBUG)
    asyncio.run(story())
    assert MARK.decode() not in caplog.text
