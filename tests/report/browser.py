"""Headless Chromium through its debugging pipe: pages opened, evaluated, typed into and photographed."""

import base64
import json
import os
import shutil
import subprocess
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program():
    """Path of a Chromium; None without one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. ``errors`` are what pages said on the console, exceptions and failed requests since `open`."""

    def __init__(self, reader, writer):
        self._reader, self._writer, self._number, self._session = reader, writer, 0, None
        self.errors = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._writer.write(json.dumps(message).encode() + b"\0")
        self._writer.flush()
        while (answer := self._next()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self):
        text = bytearray()
        while (character := self._reader.read(1)) != b"\0":
            assert character, "the browser is gone"
            text += character
        event = json.loads(text)
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "data:", "about:")):
                self.errors.append(f"request to {url}")
        elif method == "Page.loadEventFired":
            self.loaded = True
        return event

    def open(self, path, width=1280, height=800, scheme="light"):
        """Load a file at a size in a colour scheme."""
        self.errors.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self.loaded:
            self._next()
        # Two frames: what scripts drew is there.
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def value(self, expression):
        """Value of an expression of JavaScript; of a promise what it becomes."""
        how = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=expression, **how)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, key, code, number, text=""):
        """Press a key."""
        what = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        self.call("Input.dispatchKeyEvent", type="keyDown", **what, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    def screenshot(self, path, whole=False):
        """The screen, or the whole page, as a PNG."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole))
        path.write_bytes(base64.b64decode(answer["data"]))

    def _clip(self, whole):
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}


@contextmanager
def browser(profile):
    """A browser with an empty profile in a folder."""
    to_read, from_us = os.pipe()
    from_them, to_write = os.pipe()
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    words += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "--disable-background-networking"]
    # Chromium reads descriptor 3 and writes 4.
    line = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
    process = subprocess.Popen(
        ["bash", "-c", line, program(), *words],
        pass_fds=(to_read, to_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(to_write)
    reader, writer = os.fdopen(from_them, "rb"), os.fdopen(from_us, "wb")
    try:
        yield Browser(reader, writer)
    finally:
        process.terminate()
        process.wait(20)
        reader.close()
        writer.close()
