"""The page of `einc playground`: what it answers, who may ask, what a request may take, and the page in a browser."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from browser import BINARY, DRIVER, Browser
from click.testing import CliRunner

import einc
from einc.driver.cli import main
from einc.driver.playground.answers import MOST, NAME, PANES, OwnSpecs, answer
from einc.driver.playground.offers import offers
from einc.driver.playground.server import MOST as MOST_BYTES
from einc.driver.playground.server import Door, Response, examples, listening, page
from einc.driver.playground.workers import Workers
from einc.driver.sources import shipped
from einc.errors.report import EincError, Problem, Source

ROOT = Path(__file__).parent.parent
SOUND = "index t, s : time(T)\nindex d : feature(D)\ninput Q_t^d, K_s^d, V_s^d\nmask L_{t s} : s ≤ t\n" \
        "L_{t s} = Q_t^d K_{s d}\noutput Y_t^d = Σ_s softmax_s(L_{t s}) V_s^d\n"
WRONG = SOUND.replace("Σ_s softmax", "softmax")


def text_of(name: str) -> str:
    found = shipped(name)
    assert found is not None
    return found.text


# what is answered


@pytest.mark.parametrize("pane", PANES)
def test_every_pane_shows_what_the_commands_print(pane: str) -> None:
    found = answer(SOUND, pane)
    assert found["sound"] and found["problems"] == [] and found["summary"] == "2 equations, 1 output"
    wanted = {"equations": "Σ_{d", "recurrence": "for B ⊆ {s ≤ t}", "mask": "███·", "plan": "flops",
              "serving": "K_past", "plans": "no `plan` block",
              "torch": "import torch", "triton": "@triton.jit", "cpp": "torch"}
    assert wanted[pane] in found["shown"]
    if pane in ("torch", "triton", "cpp"):
        assert found["shown"].split("\n", 1)[1] == einc.compile(SOUND, pane).source.split("\n", 1)[1]


PLANNED = """index t, s : time(T)
index n : batch(B)
index d : feature(D)
input Q_{n t}^d, K_{n s}^d, V_{n s}^d
mask L_{n t s} : s ≤ t
K_r_{n s}^d = int8(min(max(K_{n s}^d, -128), 127))
L_{n t s} = Q_{n t}^d K_{r n s d}
output Y_{n t}^d = Σ_s softmax_s(L_{n t s}) V_{n s}^d
plan few:
    store K_r as int8
plan long:
    cache K_r, V paged 16
plan tp:
    mesh tp = 2
    shard n over tp
"""


def test_the_plans_of_a_text_are_those_of_the_commands(tmp_path: Path) -> None:
    """Each below its name: what is stored in few bits, what is kept of each position, what lies on a mesh; and why
    there is none.
    """
    file = tmp_path / "text.ein"
    file.write_text(PLANNED, encoding="utf-8")
    found = answer(PLANNED, "plans")
    assert found["sound"], found["problems"]
    parts = dict(part.split("\n\n", 1) for part in re.split(r"^plan (?=\w+$)", found["shown"], flags=re.M)[1:])
    assert [*parts] == ["few", "long", "tp"]
    for name, names in (("few", "few"), ("long", "serve,long"), ("tp", "tp")):
        said = CliRunner().invoke(main, ["show", str(file), "--stage", "plan", "--plan", names])
        assert said.exit_code == 0 and parts[name].strip() == said.stdout.strip(), name
    said = CliRunner().invoke(main, ["show", str(file), "--stage", "plan", "--plan", "serve"])
    assert answer(PLANNED, "serving")["shown"] == said.stdout
    refused = answer(PLANNED.replace("store K_r", "store L"), "plans")
    assert not refused["sound"] and [x["code"] for x in refused["problems"]] == ["E0119"], "as `einc check` says it"
    unmeshed = answer(PLANNED.replace("mesh tp = 2", "mesh tp"), "plans")["shown"]
    assert "error: " in unmeshed and "plan few" in unmeshed, "one plan that cannot be had leaves the others"
    assert "no positions" in answer("index d : feature(D)\ninput x_d\noutput y_d = x_d\n", "serving")["shown"]


def test_an_error_has_its_carets_its_place_and_edits_that_mend_it() -> None:
    found = answer(WRONG, "plan")
    (problem,) = [x for x in found["problems"] if x["severity"] == "error"]
    assert not found["sound"] and found["shown"] == "" and problem["code"] == "E0306"
    assert "^" in problem["text"] and WRONG[problem["start"]:problem["end"]] == "s"
    fix = problem["fixes"][0]
    assert answer(WRONG[:fix["start"]] + fix["new"] + WRONG[fix["end"]:], "plan")["sound"]


def test_a_text_uses_the_specs_of_einc_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()
    for name in ("mine.ein", "rope.ein", "specs/rope.ein", "specs/mine.ein"):
        (tmp_path / name).write_text("input secret\noutput shown = secret\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert "θ_{i}" in answer('use "attention"\n', "equations")["shown"], "a used spec uses einc's, too"
    for text in ('use "mine"\n', 'use "../mine"\n', f'use "{tmp_path}/mine"\n', "output y = mine(x = 1)\n"):
        found = answer(text, "equations")
        assert not found["sound"] and "secret" not in json.dumps(found)
    sources = OwnSpecs()
    assert isinstance(sources.read("mine.ein"), Problem) and not sources.has("mine.ein")
    assert sources.similar(Source("specs/a.ein", ""), "atention") == "attention"


@pytest.mark.parametrize("text", ["", "x", "output y = (", "# only words", "\0", "output y = " + "(" * 5000,
                                  "y" * (MOST + 1), "index t : time(T)\ninput x_t\noutput y = Σ_t x_t\n"])
def test_every_text_is_answered(text: str) -> None:
    for pane in ("equations", "mask", "plan"):
        json.dumps(answer(text, pane))
    assert answer("y" * (MOST + 1), "plan")["problems"]


@pytest.mark.parametrize(("name", "domain"), [
    ("sliding_window", lambda t, s: s <= t and s > t - 4),
    ("gallery/prefix_lm", lambda t, s: s <= t or s <= 4),
    ("gallery/dilated", lambda t, s: s <= t and (t - s) % 4 == 0 and s > t - 16)])
def test_a_mask_is_drawn_where_its_tensor_exists(name: str, domain: Any) -> None:
    found = answer(text_of(name), "mask")["shown"]
    rows = re.findall(r"^([·█]{24})$", found, re.M)[:24]
    assert rows == ["".join("·█"[bool(domain(t, s))] for s in range(1, 25)) for t in range(1, 25)]


def test_a_mask_of_data_or_none_is_said() -> None:
    assert "depends on data" in answer(text_of("gallery/documents"), "mask")["shown"]
    assert "every pair" in answer("index t : time(T)\ninput x_t\noutput y_t = x_t\n", "mask")["shown"]
    assert answer(text_of("attention"), "mask")["shown"].count("s across 1..24") == 1, "the same domain is drawn once"
    drawn = CliRunner().invoke(main, ["draw", "sliding_window", "mask", "--sizes", "T=24,W=4"]).stdout
    assert drawn in answer(text_of("sliding_window"), "mask")["shown"], "what `einc draw` prints"


def test_what_may_stand_at_a_place_is_offered() -> None:
    """A character of a LaTeX command, a name of the text, a spec; characters beyond the first 65536 count as one."""
    text = f"# 𝔸\n{SOUND}output Z_t^d = \\alp"
    (found,) = offers(text, len(text))["offers"]
    assert (found["new"], text[found["start"]:found["end"]]) == ("α", "\\alp")
    text = SOUND + "output Z_t^d = sof"
    assert "softmax" in [one["label"] for one in offers(text, len(text))["offers"]]
    assert [one["label"] for one in offers('use "gallery/softc', 18)["offers"]] == ["gallery/softcap"]
    text = SOUND + "output Z_t = "
    assert [one["label"] for one in offers(text, len(text))["offers"]][:5] == [
        "Q_{t}^{d}", "K_{s}^{d}", "V_{s}^{d}", "L_{t s}", "Y_{t}^{d}"]
    assert offers("# words sof", 11) == {"offers": []}


# who may ask


def door() -> Door:
    asked: list[Mapping[str, Any]] = []

    def ask(tab: str, request: Mapping[str, Any], turn: int) -> Mapping[str, Any]:
        asked.append(request)
        return {"tab": tab, "turn": turn, **request}

    return Door(ask, 8000)


def respond(one: Door, method: str, path: str, body: Any = None, **headers: str) -> Response:
    said = {"host": "127.0.0.1:8000"}
    if method == "POST":
        said |= {"origin": "http://127.0.0.1:8000", "content-type": "application/json"}
    said |= {name.replace("_", "-"): value for name, value in headers.items()}
    return one.respond(method, path, said, json.dumps(body).encode())


def test_the_page_and_its_questions_are_answered() -> None:
    one = door()
    assert one.address == f"http://127.0.0.1:8000/{one.token}/" and len(one.token) >= 32
    assert respond(one, "GET", f"/{one.token}/").kind == "text/html"
    assert respond(one, "GET", f"/{one.token}/page.js").kind == "text/javascript"
    found = respond(one, "POST", f"/{one.token}/look", {"text": "a", "pane": "plan", "tab": "1", "turn": 7})
    assert json.loads(found.body) == {"tab": "1", "turn": 7, "text": "a", "pane": "plan"}
    found = respond(one, "POST", f"/{one.token}/offers", {"text": "a", "at": 1, "tab": "1", "turn": 8})
    assert json.loads(found.body) == {"tab": "1 offers", "turn": 8, "text": "a", "at": 1}
    found = respond(one, "POST", f"/{one.token}/spec", {"name": "rope"})
    assert json.loads(found.body)["text"] == text_of("rope")


@pytest.mark.parametrize(("status", "method", "path", "headers"), [
    (403, "GET", "/{0}/", {"host": "evil.example:8000"}), (403, "GET", "/{0}/", {"host": "127.0.0.1:8001"}),
    (403, "GET", "/{0}/", {"host": ""}), (403, "GET", "/{0}/", {"origin": "http://evil.example"}),
    (403, "POST", "/{0}/look", {"origin": "http://evil.example"}), (403, "POST", "/{0}/look", {"origin": "null"}),
    (403, "POST", "/{0}/look", {"origin": "https://127.0.0.1:8000"}),
    (403, "POST", "/{0}/look", {"host": "localhost:8000"}), (404, "GET", "/", {}), (404, "GET", "/{0}", {}),
    (404, "GET", "/{0}x/", {}), (404, "POST", "/é/look", {}), (404, "GET", "/{0}/../page.py", {}),
    (404, "GET", "{0}/", {}), (405, "PUT", "/{0}/look", {}), (405, "POST", "/{0}/", {}),
    (415, "POST", "/{0}/look", {"content_type": "text/plain"})])
def test_who_may_not_ask(status: int, method: str, path: str, headers: dict[str, str]) -> None:
    one = door()
    found = respond(one, method, path.format(one.token), {"text": "a", "pane": "plan", "tab": "1"}, **headers)
    assert (found.status, found.kind) == (status, "text/plain") and one.token.encode() not in found.body


@pytest.mark.parametrize("body", [None, [], {"text": "a"}, {"text": "a", "pane": "shell", "tab": ""}, "x"])
def test_a_request_that_is_none_is_refused(body: Any) -> None:
    one = door()
    assert respond(one, "POST", f"/{one.token}/look", body).status == 400
    assert respond(one, "POST", f"/{one.token}/offers", body).status == 400
    assert respond(one, "POST", f"/{one.token}/spec", {"name": "../../etc/passwd"}).status == 404


def test_a_port_that_is_taken_is_told_with_a_way_out() -> None:
    one = door()
    with listening(one), pytest.raises(EincError, match="cannot be had") as told:
        listening(door(), one.port)
    assert "leave `--port` out" in str(told.value)


def test_the_server_sends_the_policy_and_no_leave_to_others() -> None:
    one = door()
    with listening(one) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert server.server_address[0] == "127.0.0.1"
        host = f"127.0.0.1:{one.port}"

        def asked(method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], str]:
            connection = HTTPConnection(host, timeout=30)
            connection.request(method, path, body or None, headers)
            found = connection.getresponse()
            return found.status, {k.lower(): v for k, v in found.getheaders()}, found.read().decode()

        status, headers, html = asked("GET", f"/{one.token}/", Host=host)
        assert status == 200 and "<textarea" in html and html == page()
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'") and "connect-src 'self';" in policy
        assert "script-src 'self';" in policy and "unsafe-eval" not in policy
        assert not any(name.startswith("access-control") for name in headers) and "python" not in str(headers).lower()
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert asked("OPTIONS", f"/{one.token}/look", Host=host)[0] == 501
        assert asked("GET", f"/{one.token}/", Host="evil.example")[0] == 403
        assert asked("POST", f"/{one.token}/look", b"x" * 9, **{"Content-Length": str(MOST_BYTES + 1)})[0] == 413
        server.shutdown()


def test_the_page_names_every_example_and_pane() -> None:
    shown = page()
    assert {"attention", "gallery/gated", "recurrent/kda"} <= {*examples()}
    assert all(f">{name}</option>" in shown for name in examples()) and all(f'data-pane="{x}"' in shown for x in PANES)
    assert "http" not in re.sub(r"http-equiv", "", shown) and "<script>" not in shown and "{" + "style}" not in shown


# what a request may take


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


def test_a_process_answers_one_request(workers: Workers) -> None:
    found = workers.run("a", {"text": SOUND, "pane": "recurrence"})
    assert found["sound"] and found == answer(SOUND, "recurrence")
    first = workers.spare
    assert first is not None and workers.run("a", {"text": WRONG, "pane": "plan"})["problems"][0]["code"] == "E0306"
    assert first.poll() is not None and workers.spare is not first and workers.running == {}


def test_a_request_that_takes_too_long_is_ended(workers: Workers) -> None:
    workers.seconds = 0.001
    assert "longer than" in workers.run("a", {"text": SOUND, "pane": "plan"})["stopped"]
    assert workers.running == {}


def test_a_newer_request_ends_the_older_one(workers: Workers) -> None:
    found: list[dict[str, Any]] = []
    older = threading.Thread(target=lambda: found.append(workers.run("a", {"text": text_of("nsa"), "pane": "cpp"})))
    older.start()
    while not workers.running:
        time.sleep(0)
    assert workers.run("a", {"text": SOUND, "pane": "plan"})["sound"]
    older.join()
    assert found[0].get("stopped") == "a newer text came" or found[0].get("sound")


def test_a_request_that_was_overtaken_on_the_way_ends_nothing(workers: Workers) -> None:
    assert workers.run("a", {"text": SOUND, "pane": "mask"}, 2)["sound"]
    assert workers.run("a", {"text": WRONG, "pane": "mask"}, 1) == {"stopped": "a newer text came"}
    assert workers.run("b", {"text": SOUND, "pane": "mask"}, 1)["sound"], "another page counts for itself"


def test_memory_and_files_are_bounded(workers: Workers, tmp_path: Path) -> None:
    code = ("import sys; from einc.driver.playground import worker; worker.MEMORY = 2**28; worker._bound()\n"
            "try: bytearray(2**29); print('memory')\nexcept MemoryError: print('bounded')\n"
            f"try:\n    f = open({str(tmp_path / 'x')!r}, 'w'); f.write('x'); f.close(); print('file')\n"
            "except OSError: print('bounded')\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["bounded", "bounded"] or not Path("/proc").exists()


def test_a_process_loads_no_framework() -> None:
    """Nor anything that einc has written."""
    code = ("import io, json, sys; from einc.driver.playground import worker\n"
            f"for pane in {[*PANES]!r}:\n    sys.stdin = io.StringIO(json.dumps(dict(text={SOUND!r}, pane=pane)))\n"
            "    worker.main()\nprint(*sys.modules)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split("\n")[-2].split())
    assert loaded & {"torch", "triton", "transformers", "sympy"} == set()
    assert not any(name.startswith("einc.emitted") for name in loaded) and NAME == "<text>"


def test_the_command_says_where_the_page_is_and_ends_quietly() -> None:
    command = [sys.executable, "-m", "einc", "playground", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().strip()
        found = re.fullmatch(r"http://(127\.0\.0\.1:\d+)/[\w-]{32}/", address)
        assert found is not None
        connection = HTTPConnection(found[1], timeout=30)
        connection.request("GET", address.partition(found[1])[2])
        assert connection.getresponse().status == 200
        try:
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=60)
        finally:
            process.kill()
        assert (process.returncode, out) == (0, "") and "Traceback" not in error


# the page


@pytest.mark.whole
def test_the_page_in_a_browser_by_typing(workers: Workers) -> None:
    if BINARY is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver here")
    one = Door(workers.run)
    browser = Browser()
    try:
        with listening(one) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            browse(browser, one)
            server.shutdown()
    finally:
        browser.close()


def until(browser: Browser, script: str) -> Any:
    """What a script returns once that is something."""
    for _ in range(600):
        if found := browser.run(f"return {script}"):
            return found
        browser.run("return new Promise(done => setTimeout(done, 100))")
    raise AssertionError(f"{script} stays false; {browser.run('return document.body.innerText')}")


def browse(browser: Browser, one: Door) -> None:
    status, shown = "document.getElementById('status')", "document.getElementById('shown')"
    browser.ask("/url", {"url": one.address})
    assert "sound" in until(browser, f"{status}.className == 'sound' && {status}.textContent")
    assert until(browser, "document.getElementById('text').value.length > 50")
    assert until(browser, f"{shown}.textContent.includes('Σ')")
    keys(browser, "\ue009a\ue009")  # Control and a
    keys(browser, f"{WRONG}plan few:\n")
    carets = "document.querySelector('#problems pre').textContent.includes('^')"
    assert until(browser, f"{status}.className == 'wrong' && {carets}")
    keys(browser, "\ue038")  # F8
    chosen = "const b = document.getElementById('text'); return b.value.slice(b.selectionStart, b.selectionEnd)"
    assert browser.run(chosen) == "s"
    keys(browser, "\ue00af\ue00a")  # Alt and f
    assert until(browser, f"{status}.className == 'sound'")
    for number, words in enumerate(("Σ", "for B", "█", "flops", "K_past", "plan few", *["import"] * 3), 1):
        keys(browser, f"\ue00a{number}\ue00a")
        assert until(browser, f"document.querySelectorAll('[role=tab]')[{number - 1}].ariaSelected == 'true' && "
                              f"{status}.className == 'sound' && {shown}.textContent.includes('{words}')")
    for dark in ("light", "dark"):
        browser.media(features={"prefers-color-scheme": dark})
        back, ink = browser.run("const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]")
        light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (back, ink)]
        assert (light[0] < light[1]) == (dark == "dark")
    browser.ask("/window/rect", {"width": 500, "height": 900})
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    keys(browser, "\ue009\ue010\ue009")  # Control and the end
    keys(browser, "# \n\\alp")
    assert until(browser, "document.querySelectorAll('#offers li').length == 1")
    keys(browser, "\ue007")  # Enter
    assert until(browser, "document.getElementById('text').value.endsWith('# \\nα')")
    browser.click("[data-pane=mask]")
    keys(browser, "\ue014")  # the arrow to the right
    assert until(browser, "document.activeElement.dataset.pane == 'plan'")
    assert [x for x in browser.console() if "favicon" not in x] == []
    asked = {address.split("/")[2] for address in browser.asked() if address.startswith("http")}
    assert asked == {f"127.0.0.1:{one.port}"}


def keys(browser: Browser, text: str) -> None:
    """Types into what has the focus."""
    actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
    held = "".join(x for x in "\ue009\ue00a" if text.startswith(x) and text.endswith(x))
    if held:
        inner = [{"type": kind, "value": key} for key in text.strip(held) for kind in ("keyDown", "keyUp")]
        actions = [{"type": "keyDown", "value": held}, *inner, {"type": "keyUp", "value": held}]
    for at in range(0, len(actions), 100):
        browser.ask("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions[at:at + 100]}]})
