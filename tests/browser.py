"""A headless Chromium, driven over WebDriver with nothing but the standard library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
BINARY, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")


class Browser:
    """One window. What it asks of the network and what its console says is kept."""

    def __init__(self) -> None:
        self.driver = subprocess.Popen([str(DRIVER), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True)
        assert self.driver.stdout is not None
        told = next(found for line in self.driver.stdout if (found := re.search(r"on port (\d+)\.", line)))
        self.base = f"http://127.0.0.1:{told[1]}"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--window-size=1000,1200"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"binary": BINARY, "args": options},
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        self.session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from error

    def ask(self, path: str, body: Any, method: str = "POST") -> Any:
        return self._ask(method, f"/session/{self.session}{path}", body)

    def open(self, file: Path, place: str = "") -> None:
        self.ask("/url", {"url": file.as_uri() + place})

    def run(self, script: str, *given: Any) -> Any:
        """What a script returns."""
        return self.ask("/execute/sync", {"script": script, "args": list(given)})

    def _element(self, selector: str) -> dict[str, str]:
        found: dict[str, str] = self.ask("/element", {"using": "css selector", "value": selector})
        return found

    def _shown(self, selector: str) -> dict[str, str]:
        """The element, scrolled into view at once."""
        element = self._element(selector)
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        return element

    def click(self, selector: str) -> None:
        self.ask(f"/element/{self._shown(selector)[ELEMENT]}/click", {})

    def hover(self, selector: str) -> None:
        element = self._shown(selector)
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": element}
        self.ask("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def media(self, kind: str = "", features: Mapping[str, str] | None = None) -> None:
        """As if the page were printed, or read at night."""
        params = {"media": kind,
                  "features": [{"name": name, "value": value} for name, value in (features or {}).items()]}
        self.ask("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": params})

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.ask("/se/log", {"type": "browser"})]

    def asked(self) -> list[str]:
        """Every address that was asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.ask("/se/log", {"type": "performance"})]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def close(self) -> None:
        try:
            self._ask("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.communicate()
