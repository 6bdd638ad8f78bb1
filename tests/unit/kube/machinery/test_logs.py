"""Log lines: what they are about, that each is one line, and that those who hold secrets don't show them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.cluster.security import Mechanism, Password, Protocol, Sasl, Security, Store, StoreKind, Tls
from kafka_recovery.kube.machinery.logs import LogFormat, about, say_less_of_watches, set_up
from kafka_recovery.kube.process.session import ServiceAccountToken

LOG = logging.getLogger("kafka_recovery.kube.somewhere")
SECRET = "gehei=m,nis"
OBEYED = "\x1b]0;x\x07\x9b2J\u202e\x7f"
"""Sets a title, clears the screen, turns the reading direction."""


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What is logged; afterwards logging is as it was, pytest's own handlers included."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for handler in handlers:
        root.removeHandler(handler)  # else `force` would close pytest's
    yield io.StringIO()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(False)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class TestJson:
    def test_a_line_says_when_where_how_bad_and_what(self, stream: io.StringIO) -> None:
        set_up(LogFormat.JSON, stream=stream)
        LOG.warning("%d partitions are offline", 12)

        (line,) = lines(stream)
        assert line.pop("time").endswith("Z")
        assert line == {"level": "warning", "logger": LOG.name, "message": "12 partitions are offline"}

    def test_it_says_what_it_is_about_also_in_tasks_begun_there(self, stream: io.StringIO) -> None:
        set_up(LogFormat.JSON, stream=stream)

        async def work(partition: str) -> None:
            with about(partition=partition):
                await asyncio.sleep(0)
                LOG.info("refused")

        async def story() -> None:
            with about(cluster="kafka/prod", recovery="kafka/prod-1a2b"):
                tasks = [asyncio.create_task(work(partition)) for partition in ("a-0", "b-1")]
            await asyncio.gather(*tasks)
            LOG.info("done")

        asyncio.run(story())

        first, second, last = lines(stream)
        assert [first["partition"], second["partition"]] == ["a-0", "b-1"]
        assert {first["recovery"], second["recovery"]} == {"kafka/prod-1a2b"}
        assert not {"cluster", "recovery", "partition"} & last.keys()

    def test_a_traceback_stays_within_its_line(self, stream: io.StringIO) -> None:
        set_up(LogFormat.JSON, stream=stream)
        try:
            raise ConnectionError("no way")
        except ConnectionError:
            LOG.exception("it failed")

        (line,) = lines(stream)
        assert line["message"] == "it failed"
        assert "Traceback" in line["error"]
        assert "no way" in line["error"]

    def test_no_terminal_obeys_what_somebody_wrote_and_it_reads_back_as_it_was(self, stream: io.StringIO) -> None:
        set_up(LogFormat.JSON, stream=stream)
        LOG.info("refused: %s", OBEYED)

        assert stream.getvalue().strip().isprintable()
        assert lines(stream)[0]["message"] == f"refused: {OBEYED}"


class TestPlain:
    def test_a_line_reads_from_left_to_right(self, stream: io.StringIO) -> None:
        set_up(LogFormat.PLAIN, stream=stream)
        with about(recovery="kafka/prod-1a2b", cluster="kafka/prod"):
            LOG.info("it is waited for")

        time, _, rest = stream.getvalue().partition(" ")
        assert time.endswith("Z")
        assert rest == (
            "INFO     kafka_recovery.kube.somewhere cluster=kafka/prod recovery=kafka/prod-1a2b: it is waited for\n"
        )

    def test_what_comes_from_outside_can_not_look_like_a_line_of_ours(self, stream: io.StringIO) -> None:
        set_up(LogFormat.PLAIN, stream=stream)
        with about(recovery="a\nb"):
            LOG.info("approved by %s", "ann\r\n2026-11-21T12:00:00Z CRITICAL everything is lost")

        assert len(stream.getvalue().splitlines()) == 1

    def test_no_terminal_obeys_what_somebody_wrote(self, stream: io.StringIO) -> None:
        set_up(LogFormat.PLAIN, stream=stream)
        with about(recovery=OBEYED):
            LOG.info("refused: %s", OBEYED)
            try:
                raise ConnectionError(OBEYED)
            except ConnectionError:
                LOG.exception("it failed")

        shown = stream.getvalue()
        assert all(line.isprintable() for line in shown.split("\n"))
        assert shown.count("\\x1b]0;x\\x07\\x9b2J\\u202e\\x7f") == 4


class TestLevels:
    def test_debugging_shows_our_lines_and_not_those_of_libraries(self, stream: io.StringIO) -> None:
        """The kubernetes library prints whole answers, Secrets included."""
        set_up(LogFormat.PLAIN, "DEBUG", stream)
        LOG.debug("ours")
        logging.getLogger("kubernetes.client.rest").debug("response body: %s", SECRET)

        assert "ours" in stream.getvalue()
        assert SECRET not in stream.getvalue()

    def test_a_level_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(ValueError, match="'LOUD' is no level"):
            set_up(LogFormat.PLAIN, "LOUD")

    def test_a_field_that_lines_do_not_have_is_refused(self) -> None:
        with pytest.raises(TypeError, match="no field topic"), about(topic="orders"):
            pass


def holders(tmp_path: Path) -> dict[str, object]:
    token = tmp_path / "token"
    token.write_text(SECRET)
    store = Store(StoreKind.PEM, pem=SECRET, password=SECRET, key_password=SECRET)
    sasl = Sasl(Mechanism.PLAIN, Password("ann", SECRET))
    return {
        "store": store,
        "sasl": sasl,
        "security": Security(Protocol.SASL_SSL, Tls(store, store), sasl),
        "token": ServiceAccountToken(token),
    }


@pytest.mark.parametrize("holder", ["store", "sasl", "security", "token"])
@pytest.mark.parametrize("form", LogFormat)
def test_who_holds_a_secret_does_not_show_it(holder: str, form: LogFormat, tmp_path: Path, stream: io.StringIO) -> None:
    set_up(form, "DEBUG", stream)
    held = holders(tmp_path)[holder]
    LOG.info("%s %r %s", held, held, {"nested": [held]})

    assert stream.getvalue()
    assert SECRET not in stream.getvalue()


def test_a_watch_that_can_not_be_closed_at_the_end_is_no_error_and_all_else_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def watch() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise RuntimeError("it was giving an event")

    async def ends_in_the_middle() -> None:
        say_less_of_watches(asyncio.get_running_loop())
        stream = watch()
        await anext(stream)
        kept.append(stream)
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)

    kept: list[AsyncIterator[int]] = []
    asyncio.run(ends_in_the_middle())

    assert [type(each.exc_info[1]) for each in caplog.records if each.exc_info] == [ZeroDivisionError]
