"""The page in a real browser: no script error, every figure there, the timeline zoomed."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'vdla[host]'")
import matplotlib as mpl

mpl.use("Agg")

from tests.networks import residual
from vdla.config import TINY
from vdla.runtime import plots
from vdla.runtime.api import compile
from vdla.runtime.report import Report, figures, render
from vdla.runtime.report import page as page_parts
from vdla.runtime.trace import Timeline

FIGURES = ["causes", "roofline", "units", "scratchpads", "bandwidth"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WATCH = """<script>
window.addEventListener("error", (event) => {
  document.documentElement.dataset.error = event.message;
});
</script>"""
USE = """<script>
const canvas = document.getElementById("timeline");
const seen = [canvas.dataset.drawn];
document.getElementById("timeline-in").click();
seen.push(canvas.dataset.drawn);
document.querySelector("[data-begin]").click();
seen.push(canvas.dataset.drawn);
document.getElementById("timeline-all").click();
seen.push(canvas.dataset.drawn);
canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -400, clientX: 600 }));
seen.push(canvas.dataset.drawn);
const box = canvas.getBoundingClientRect();
const [, begin, end] = JSON.parse(document.getElementById("timeline-data").textContent).layers[0];
document.getElementById("timeline-all").click();
canvas.dispatchEvent(new PointerEvent("pointermove",
  { clientX: box.left + 112, clientY: box.top + 5 }));
const ink = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
let colours = new Set();
for (let i = 0; i < ink.length; i += 4) {
  if (ink[i + 3] === 255) colours.add([ink[i], ink[i + 1], ink[i + 2]].join());
}
document.documentElement.dataset.seen = JSON.stringify({
  drawn: seen,
  tip: document.getElementById("timeline-tip").textContent,
  colours: [...colours],
  figures: [...document.querySelectorAll("figure svg")].map((svg) => {
    const box = svg.getBoundingClientRect();
    const paths = svg.querySelectorAll("path").length;
    return [svg.getAttribute("aria-label"), box.width, box.height, paths];
  }),
  external: performance.getEntriesByType("resource").map((entry) => entry.name)
    .filter((name) => !name.startsWith("data:")),
});
</script>"""


@pytest.fixture(scope="module")
def report() -> Report:
    return Report(
        Timeline.of(compile(residual(), config=TINY)),
        Timeline.of(compile(residual(), config=TINY, vthreads=1)),
    )


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return render(report)


@pytest.fixture(scope="module")
def browser() -> str:
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip("needs a browser without a window; install it with: apt-get install chromium")


def dumped(browser: str, page: Path, *options: str) -> tuple[str, str]:
    """The page's elements after its scripts have run, and what the browser printed."""
    profile = page.with_suffix(".profile")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,2000"]
    command += [f"--user-data-dir={profile}", "--virtual-time-budget=5000", "--disable-extensions"]
    command += ["--enable-logging=stderr", *options, "--dump-dom", page.as_uri()]
    environment = {**os.environ, "HOME": str(page.parent)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


def test_a_browser_draws_it_all_and_says_nothing(
    browser: str, page: str, report: Report, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    watched = page.replace("<style>", WATCH + "<style>", 1).replace("</body>", USE + "</body>")
    path.write_text(watched, "utf-8")
    dom, said = dumped(browser, path)
    assert "data-error" not in dom[: dom.index("<head>")]
    assert [line for line in said.splitlines() if "CONSOLE" in line] == []
    seen = json.loads(html.unescape(re.search(r'<html[^>]*data-seen="([^"]*)"', dom)[1]))  # type: ignore[index]

    total = report.timeline.cycles
    whole, closer, layer, again, wheeled = (
        tuple(map(float, drawn.split(":"))) for drawn in seen["drawn"]
    )
    assert whole == again == (0, total)
    assert closer == pytest.approx((total / 4, 3 * total / 4))
    name, begin, end = next(iter(report.timeline.windows()))
    assert layer[0] <= begin < end <= layer[1] < total
    assert wheeled[1] - wheeled[0] < total
    assert seen["tip"] == f"{name}: {end - begin:,} cycles"
    # Loads, GEMM, ALU and stores are on the canvas.
    assert {"106,174,214", "31,59,99", "224,123,33", "160,69,126"} <= set(seen["colours"])

    assert [name for name, *_ in seen["figures"]] == FIGURES
    for _, width, height, paths in seen["figures"]:
        assert min(width, height) > 150
        assert paths > 10
    assert seen["external"] == []


class _Page(HTMLParser):
    """Whether elements are closed in order, and what they refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href"):
                self.references.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "link", "br", "img"):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_refers_to_nothing_outside_itself(page: str) -> None:
    parsed = _Page()
    parsed.feed(page)
    assert parsed.open == []
    assert all(ref.startswith(("#", "data:")) for ref in parsed.references)
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert not re.search(r"@import|url\((?!#)", page)


def test_it_says_what_was_measured(page: str, report: Report) -> None:
    timeline = report.timeline
    assert f"<b>{timeline.cycles:,}</b><span>cycles</span>" in page
    assert report.without is not None
    assert f"it takes {report.without.cycles:,} cycles" in page
    for row in timeline.layers.to_dict("records"):
        line = next(part for part in page.split("<tr>") if f'data-begin="{row["begin"]}"' in part)
        assert f"<td>{row['cycles']:,}</td>" in line
        assert f">{report.bound[row['name']]}</span>" in line
    for change in report.changes:
        assert f">{change.words}</td>" in page
        assert f"<td>{change.saved:,}</td>" in page
    assert f">{TINY.hash:016x}</td>" in page
    assert "softmax (softmax)" in page  # runs on the cpu


def test_the_same_figure_is_the_same_text(report: Report) -> None:
    def drawn(name: str) -> str:
        ax = plots.cycles_by_cause(report.timeline.layers)
        return figures.svg_of(ax.get_figure(root=True), name)

    once = drawn("once")
    assert once == drawn("once")
    assert not set(re.findall(r' id="([^"]*)"', once)) & set(
        re.findall(r' id="([^"]*)"', drawn("b"))
    )


def test_names_are_text(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "<b>&</script>"
    assert "<title>&lt;b&gt;&amp;&lt;/script&gt;</title>" in page_parts._head(evil)
    program = report.timeline.parts[0].result.program
    labels = (evil, *program.labels[1:])
    monkeypatch.setitem(program.__dict__, "labels", labels)  # frozen
    text = figures.timeline_data(report.timeline)
    assert text is not None
    assert "</script>" not in text
    assert json.loads(text)["names"][0] == evil


def test_a_network_of_very_many_instructions_has_no_timeline(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MOST_SLICES", 10)
    part = page_parts._zoomable(report)
    assert "too many instructions" in part
    assert '<canvas id="timeline">' not in part
