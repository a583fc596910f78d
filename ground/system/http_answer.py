"""An answer over HTTP within a time and a size that bound the whole request, whatever the other side sends."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.request import Request

_PART_BYTES = 1 << 20


def http_answer(
    request: str | Request,
    seconds: float,
    most: int,
    *,
    proxies: bool = True,
    arrived: Callable[[float, float], None] | None = None,
) -> bytes:
    """The body. OSError, in words, where there is none in so many seconds, or it has more than `most` bytes.

    request: an address, or one with a body; proxies: whether those of the environment are used. From the main thread
    arrived: is called with how much of the body has come, and of how much, MB, where its length is known
    """
    # 40 ms of CPU to import: only where somebody is asked.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, build_opener

    opener = build_opener(*([] if proxies else [ProxyHandler({})]))
    try:
        with _time_limit(seconds), opener.open(request, timeout=seconds) as answer:
            body, whole = bytearray(), getattr(answer, "length", None)
            while len(body) <= most and (part := answer.read(min(_PART_BYTES, most + 1 - len(body)))):
                body += part
                if arrived is not None and whole:
                    arrived(len(body) / 1e6, whole / 1e6)
            cut = getattr(answer, "length", None)
    except HTTPError as error:
        said = b""
        with contextlib.suppress(OSError, HTTPException), _time_limit(seconds):
            said = error.read(500)
        raise OSError(f"{error} {said.decode('utf-8', 'replace')}".rstrip()) from None
    except HTTPException as error:
        raise OSError(f"its answer is broken ({type(error).__name__}: {error})") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise OSError(str(reason) or type(reason).__name__) from None
    if len(body) > most:
        raise OSError(f"it answers with more than {most >> 20} MiB")
    if cut:
        raise OSError(f"its answer ends {cut} bytes before its length")
    return bytes(body)


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """TimeoutError after so many seconds: the timeout of a socket begins anew with each byte that comes."""

    def late(*_: object) -> None:
        raise TimeoutError("timed out")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
