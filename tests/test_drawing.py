"""Pictures of a spec: domains, the tiles that kernels visit, plans, and weights on data."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result

import einc
from einc.driver import checking
from einc.driver.cli import main
from einc.driver.drawing.drawn import drawn
from einc.driver.drawing.pictures import Picture, save
from einc.driver.options import Options

# Specs with a kernel that goes over s in tiles of t, and sizes of what their domains read.
TILED = {"sdpa": {}, "sliding_window": {"W": 20}, "paged_window": {"P": 16, "N": 8}, "gallery/documents": {},
         "gallery/dilated": {"W": 4, "D": 3}, "gallery/prefix_lm": {"P": 24}, "gallery/sinks_window": {"W": 10},
         "gallery/local_global": {"W": 6, "G": 5}, "gallery/decode": {"S": 90}, "alibi": {}, "gqa": {"G": 2, "H": 4},
         "gallery/block_diagonal": {"W": 12}, "requests_packed": {"T_sum": 90, "d_k": 4}}


def einc_(*args: str, status: int = 0) -> Result:
    """The result of a command, which ended with the status and without a traceback."""
    result = CliRunner().invoke(main, list(args))
    assert result.exit_code == status, result.output
    return result


# domains


def test_a_domain_on_a_terminal() -> None:
    assert einc_("draw", "sdpa", "mask", "--sizes", "T=4").stdout == (
        "L : s ≤ t   t down 1..4, s across 1..4\n█···\n██··\n███·\n████\n62.5 % of 4 × 4 inside\n")


@pytest.mark.parametrize(("spec", "sizes", "inside"), [
    ("sliding_window", {"T": 9, "W": 3}, lambda t, s: (s <= t) & (s > t - 3)),
    ("gallery/prefix_lm", {"T": 9, "P": 4}, lambda t, s: (s <= t) | ((s <= 4) & (t <= 4))),
    ("gallery/decode", {"T": 3, "S": 9}, lambda t, s: s <= t + 6),
    ("gallery/dilated", {"T": 12, "W": 2, "D": 3}, lambda t, s: (s <= t) & ((t - s) % 3 == 0) & (s > t - 6)),
])
def test_a_domain_has_the_points_that_the_spec_says(spec: str, sizes: dict[str, int], inside: object) -> None:
    (shown,) = drawn(checking.typed(spec), "mask", sizes)
    t, s = np.indices(shown.cells.shape) + 1
    assert np.array_equal(shown.cells.astype(bool), inside(t, s))  # type: ignore[operator]


def test_a_domain_that_data_decide(tmp_path: Path) -> None:
    file, doc = tmp_path / "given.npz", np.array([1, 1, 2, 2, 2])
    rest = {name: np.zeros((1, 1, 5, 2), dtype=np.float32) for name in "QKV"}
    np.savez(file, doc=doc, **rest)
    (shown,) = drawn(checking.typed("gallery/documents"), "mask", {}, data_file=str(file))
    assert np.array_equal(shown.cells, np.tril(doc[:, None] == doc))


def test_large_domains_are_drawn_by_blocks_that_keep_what_is_inside() -> None:
    cells = np.tril(np.ones((1000, 300)))
    shown = Picture("L", "domain", "t", "s", cells)
    blocks = shown.blocks(10, 10)
    assert blocks.shape == (10, 10)
    assert np.isclose((blocks * np.outer([100] * 10, [30] * 10)).sum(), cells.sum())
    assert all(len(line) <= 120 for line in shown.text.splitlines())
    cells[:] = 0
    cells[500, 150] = 1
    assert sum("░" in line for line in Picture("L", "domain", "t", "s", cells).text.splitlines()) == 1


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (1, 1), (3, 0)])
def test_a_picture_of_few_points(shape: tuple[int, int]) -> None:
    shown = Picture("L", "domain", "t", "s", np.ones(shape))
    assert shown.text.count("█") == shape[0] * shape[1]
    down, across = (f"1..{count}" if count else "of no position" for count in shape)
    assert shown.text.startswith(f"L   t down {down}, s across {across}\n")
    ElementTree.fromstring(shown.svg)


# tiles


@pytest.mark.drawn(3)
@pytest.mark.drawn(8)
@pytest.mark.parametrize("tile", [(8, 16), (7, 5), (64, 64), (1, 1)])
@pytest.mark.parametrize("spec", TILED)
def test_tiles_that_are_skipped_have_no_point_and_whole_ones_have_all(spec: str, tile: tuple[int, int]) -> None:
    """The points are those of the interpreter, the tiles those of the plan."""
    program = checking.typed(spec)
    sizes = TILED[spec] if spec == "requests_packed" else {"T": 64, **TILED[spec]}
    options = {"options": Options(own=True), "seed": 3}
    (mask, *_), (tiles, *_) = (drawn(program, what, sizes, tile=tile if what == "tiles" else (0, 0), **options)
                               for what in ("mask", "tiles"))
    inside = mask.cells.astype(bool)
    assert inside.shape == tiles.cells.shape
    assert not (inside & (tiles.cells == 0)).any()
    assert inside[tiles.cells == 1].all()


def test_tiles_of_a_triangle_are_counted() -> None:
    (tiles, *_) = drawn(checking.typed("sdpa"), "tiles", {"T": 64}, tile=(16, 16))
    assert tiles.notes == ("tiles of 16 × 16: 6 whole, 4 cut, 6 skipped",
                           "of all points 37.5 % whole, 25 % cut, 37.5 % skipped")
    assert "tiles of 128 ×" in einc_("draw", "sliding_window", "tiles", "--sizes", "T=2048,W=300").stdout


# plans, weights, files


def test_tiles_of_kernels_in_rounds_are_those_of_the_first_round() -> None:
    inside, alone = (drawn(checking.typed(name), "tiles", {"T": 90}, tile=(16, 8))[0]
                     for name in ("decoder_lm", "gpt2_block"))
    assert inside.notes == alone.notes and np.array_equal(inside.cells, alone.cells)


def test_a_size_that_only_a_choice_reads_is_known() -> None:
    assert einc_("draw", "nsa", "mask", "--sizes", "T=8,B=2,n=1").stdout


def test_a_plan_is_a_graph_of_its_steps() -> None:
    (shown,) = drawn(checking.typed("gqa"), "plan", {"T": 8, "H": 4, "G": 2, "d_k": 4, "d_model": 6})
    made = einc.compile("gqa", backend="torch").plan
    assert len(shown.nodes) == len(made.steps)
    assert all(m < n for n, node in enumerate(shown.nodes) for m in node.after)
    assert "A (8 × 6)" in shown.text
    assert len(ElementTree.fromstring(shown.svg).findall("{*}rect")) == len(shown.nodes)


def test_weights_are_those_of_the_spec() -> None:
    shown = {one.title: one.cells for one in drawn(checking.typed("attention"), "weights", {"T": 9}, seed=2)}
    assert np.allclose(shown["A"].sum(1), 1)
    assert not np.triu(shown["A"], 1).any()
    both = drawn(checking.typed("attention"), "weights", {"T": 9}, seed=2, of="A")
    assert [(one.rows, one.columns) for one in both] == [("t", "s"), ("t", "f")]
    assert np.array_equal(both[0].cells, shown["A"])


@pytest.mark.parametrize("what", ["mask", "tiles", "plan", "weights"])
def test_files(tmp_path: Path, what: str) -> None:
    einc_("draw", "attention", what, "--own", "-o", str(tmp_path / "out.html"))
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert text.count("<figure>") == text.count("<svg ") >= 1
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    if what != "weights":
        einc_("draw", "attention", what, "--own", "-o", str(tmp_path / "out.svg"))
        ElementTree.fromstring((tmp_path / "out.svg").read_text(encoding="utf-8"))


def test_the_picture_of_the_readme_is_drawn_by_the_command(tmp_path: Path) -> None:
    words = ["gallery/sinks_window", "tiles", "--sizes", "T=1024,W=300", "--tile", "64,64"]
    einc_("draw", *words, "-o", str(tmp_path / "tiles.svg"))
    shown = Path(__file__).parents[1] / "specs" / "pictures" / "tiles.svg"
    assert (tmp_path / "tiles.svg").read_text(encoding="utf-8") == shown.read_text(encoding="utf-8")


def test_rows_that_are_the_same_are_drawn_at_once() -> None:
    cells = np.array([[0.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.5, 0.0, 1.0]])
    boxes = ElementTree.fromstring(Picture("p", "tiles", "t", "s", cells).svg).findall("{*}rect")[1:]
    side = 512 / 3
    assert [tuple(round(float(box.get(name, "")) / side) for name in ("width", "height")) for box in boxes] == [
        (2, 2), (1, 1), (1, 1)]
    assert [box.get("fill-opacity") for box in boxes] == ["1", "0.5", "1"]


def test_what_is_cut_is_never_as_dark_as_what_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shades mean the same in every picture, also where no tile is whole."""
    axes = pytest.importorskip("matplotlib.axes").Axes
    found, shown = list[tuple[float, float]](), axes.imshow

    def imshow(self: object, *cells: object, **options: float) -> object:
        found.append((options["vmin"], options["vmax"]))
        return shown(self, *cells, **options)

    monkeypatch.setattr(axes, "imshow", imshow)
    halves = np.full((2, 2), 0.5)
    save(str(tmp_path / "out.png"), [Picture("p", kind, "t", "s", halves) for kind in ("tiles", "weights")])
    assert found == [(0.0, 1.0), (0.0, 0.5)]


def test_a_bitmap_needs_a_library_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "out.png"
    einc_("draw", "sdpa", "mask", "-o", str(file))
    assert file.read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("einc.driver.drawing.pictures.import_module", _none)
    assert "einc[draw]" in einc_("draw", "sdpa", "mask", "-o", str(file), status=1).stderr


def _none(name: str) -> object:
    if name.startswith("matplotlib"):
        raise ModuleNotFoundError(name=name)
    return import_module(name)


@pytest.mark.parametrize(("words", "said"), [
    (["gallery/perceiver", "mask"], "leaves anything out"),
    (["attention", "mask", "--of", "Q"], "those that have one: `L`"),
    (["sdpa", "mask", "--of", "nope"], "`L`"), (["sdpa", "weights", "--of", "nope"], "those that it computes"),
    (["not_attention/rms_norm", "tiles"], "no kernel"), (["sdpa", "tiles", "--tile", "4"], "ROWS,COLUMNS"),
    (["sdpa", "tiles", "--tile", "0,4"], "ROWS,COLUMNS"), (["sdpa", "mask", "--tile", "4,4"], "--tile is for tiles"),
    (["sdpa", "plan", "--of", "L"], "--of is for"), (["sdpa", "mask", "--sizes", "T=100000"], "smaller sizes"),
    (["attention", "tiles", "--tile", "1,1", "--sizes", "T=1000000"],
     "would have 1,000,000,000,000 tiles, more than the 1,048,576 that are drawn"),
    (["attention", "tiles", "--tile", "4000,4000", "--sizes", "T=1000000"], "more than the 268,435,456 that are drawn"),
    (["sdpa", "mask", "-o", "out.pdf"], "ending"), (["sdpa", "plan", "-o", "out.png"], "not as a bitmap"),
    (["sdpa", "mask", "--sizes", "t=4"], "did you mean `T`?"), (["gallery/cope", "tiles"], "block of rows"),
])
def test_what_cannot_be_drawn_is_a_line(words: list[str], said: str, tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in einc_("draw", *words, status=1).stderr


@pytest.mark.parametrize(("count", "status"), [("4", 0), ("100000", 1)])
def test_no_data_is_drawn_where_none_is_read(count: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused for its size is refused at once, and so is what reads no data drawn."""
    monkeypatch.setattr("einc.driver.commands.data.randoms", None)
    einc_("draw", "sdpa", "mask", "--sizes", f"T={count}", status=status)


# in Python


def test_the_same_in_python() -> None:
    made = einc.compile("sdpa", backend="torch")
    shown = made.draw("mask", T=4)
    assert str(shown) == einc_("draw", "sdpa", "mask", "--sizes", "T=4").stdout
    assert shown._repr_html_().count("<figure>") == 1
    assert made.draw("plan")[0].text.startswith("plan of sdpa")
    told = einc_("cost", "sdpa", "--sizes", "B=1,H=1,T=8,d_k=2").stdout
    assert str(made.cost(B=1, H=1, T=8, d_k=2)) == told
    with pytest.raises(einc.EincError, match="no size of the spec"):
        made.cost(t=8)
    with pytest.raises(einc.EincError, match="nothing that is drawn"):
        made.draw("nope")
    for what in ("mask", "plan"):
        with pytest.raises(einc.EincError, match="`t` is no size of the spec; did you mean `T`"):
            made.draw(what, t=3)
