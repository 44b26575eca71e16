"""A headless Chromium that is driven over a pipe by its DevTools protocol: for the browser tests and the pictures of the docs."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

#: The names under which Chromium is installed.
NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)
#: Seconds until an answer is given up.
PATIENCE = 120.0


def chromium() -> str | None:
    """The browser's path; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page. `problems` holds errors and messages of its console, `requests` the addresses that it asked for."""

    def __init__(
        self,
        folder: Path,
        *,
        width: int = 1280,
        height: int = 900,
        phone: bool = False,
        dark: bool = False,
        scale: float = 1.0,
    ) -> None:
        path = chromium()
        assert path is not None
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._count, self._buffer = 0, b""
        self._process, self._in, self._out = _start(
            [path, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        )
        target = self._ask("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        attached = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True}, session=None)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", {"features": [scheme]})

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def open(self, file: Path) -> float:
        """Open a page; returns the seconds until it is loaded and drawn."""
        start = time.perf_counter()
        self._ask("Page.navigate", {"url": file.as_uri()})
        self.run(
            "new Promise(done => { if (document.readyState === 'complete') done(); else addEventListener('load', done); })"
        )
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.perf_counter() - start

    def run(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self._ask("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True})
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait(self, seconds: float) -> None:
        """Let the page work for a while."""
        self.run(f"new Promise(done => setTimeout(done, {1000 * seconds}))")

    def press(self, key: str, times: int = 1) -> None:
        """Press a key as a person does."""
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        name, code = (" ", 32) if key == "Space" else (key, {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0))
        for _ in range(times):
            described = {"key": name, "code": key, "windowsVirtualKeyCode": code, "text": text}
            self._ask("Input.dispatchKeyEvent", {"type": "keyDown" if text else "rawKeyDown", **described})
            self._ask("Input.dispatchKeyEvent", {"type": "keyUp", **described})

    def move(self, selector: str) -> None:
        """Move the mouse to the middle of the first element that the selector finds."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{found}.scrollIntoView({{block: 'center'}})")
        self.wait(0.1)
        x, y = self.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({found}.getBoundingClientRect())")
        self._ask("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def picture(self, path: Path) -> None:
        """Write what is in the window as PNG."""
        found = self._ask("Page.captureScreenshot", {"format": "png"})
        path.write_bytes(base64.b64decode(found["data"]))

    def _ask(
        self, method: str, parameters: dict[str, Any] | None = None, *, session: str | None = ""
    ) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._in, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._notice(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], PATIENCE)
            if not ready:
                raise TimeoutError(f"Chromium did not answer within {PATIENCE:g} s")
            self._buffer += os.read(self._out, 1 << 20)
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def _notice(self, event: dict[str, Any]) -> None:
        method, found = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(found["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(json.dumps(found["args"])[:600])
        elif method == "Log.entryAdded":
            self.problems.append(found["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])


def _start(command: list[str]) -> tuple[subprocess.Popen[bytes], int, int]:
    """The process, and the ends of its pipes: Chromium reads from descriptor 3 and writes to descriptor 4."""
    to_read, write_end = os.pipe()
    read_end, to_write = os.pipe()
    fixed = [
        os.dup(fd) for fd in (to_read, to_write)
    ]  # they may not be 3 and 4 themselves before they are copied there

    def connect() -> None:
        os.dup2(fixed[0], 3)
        os.dup2(fixed[1], 4)

    process = subprocess.Popen(
        command, preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for fd in (to_read, to_write, *fixed):
        os.close(fd)
    return process, write_end, read_end
