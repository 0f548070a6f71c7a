"""The pages behind the front page: a data set and a variation of it have one each."""

from fedci.benchmark.pages import chapters
from fedci.benchmark.pages.summary import summarise
from support.figures import cells


def test_a_variation_has_a_page_of_its_own():
    chapter = chapters.dataset_chapter(summarise(cells([1.0], dataset="data-1/std")), "data-1/std")
    assert (chapter.slug, chapter.title) == ("data-1-std", "DATA-1, standard deviation 2")
    assert "\nA variation of DATA-1.\n" in chapter.page()


def test_a_page_without_anything_to_show_is_left_out():
    assert not chapters.ablation_chapter({})
    assert not chapters.interval_chapter({}, {})
    assert [one.slug for one in chapters.table_chapters(summarise(cells([1.0])), {}, [])] == ["comparisons", "data-1"]


def test_figures_that_were_drawn_stand_with_their_captions_and_no_others():
    text = chapters.paper_chapter({}, ["ate-data-2", "something else"]).sections["Figures"]
    assert text.count("![") == 1
    assert "(../figures/ate-data-2.svg)" in text
