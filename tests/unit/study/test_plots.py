from xml.etree import ElementTree

import pytest

from nextquery.study.judgements import NOT_USEFUL, SOMEWHAT, USEFUL
from nextquery.study.report import draw_shares
from nextquery.study.results import Agreement, GroupResults, ModelResults, Share

HOSTILE = [
    "A$\\frac$",
    "$x$",
    "$$",
    "\\",
    "a_b^c",
    "<script>x</script>",
    "--><b>",
    "]]>",
    "m" * 80,
]


def _group(*names: str) -> GroupResults:
    shares = {USEFUL: Share(0.5, 0.4, 0.6), SOMEWHAT: Share(0.2, 0.1, 0.3)}
    shares[NOT_USEFUL] = Share(0.3, 0.3, 0.3)
    models = [ModelResults(n, 10, 10, 2, shares, Share(0.7, 0.6, 0.8), 0.6) for n in names]
    return GroupResults((0, 1), 2, tuple(models), (), Agreement(None, None, 0))


def _texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return ["".join(each.itertext()).strip() for each in root.iter() if each.tag.endswith("}text")]


@pytest.mark.parametrize("name", HOSTILE[:-1])
def test_any_name_is_drawn_as_it_is(name: str) -> None:
    svg = draw_shares(_group(name, "B"))
    assert name in _texts(svg)
    assert "<script" not in svg


def test_a_long_name_is_cut_and_leaves_room() -> None:
    assert "m" * 23 + "…" in _texts(draw_shares(_group(HOSTILE[-1], "B")))


def test_the_same_results_give_the_same_bytes() -> None:
    assert draw_shares(_group("A", "B")) == draw_shares(_group("A", "B"))
