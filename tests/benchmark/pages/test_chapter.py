"""A page behind the front page: its sections in order, empty ones left out, links back and to its commands."""

from fedci.benchmark.pages.chapter import COMMANDS, LINKS, Chapter, slug

CHAPTER = Chapter("data-1", "DATA-1", "a simulation", "Opening.\n", {"": "Bare.\n", "Empty": "", "Cost": "A table.\n"})


def test_a_page_has_its_title_its_links_and_the_sections_that_have_text():
    assert CHAPTER.page() == (f"# DATA-1\n\n{LINKS} · [commands and versions](commands.md)\n\nOpening.\n\nBare.\n\n"
                              f"## Cost\n\nA table.\n")


def test_within_another_text_headings_are_one_deeper():
    assert CHAPTER.within() == "## DATA-1\n\nOpening.\n\nBare.\n\n### Cost\n\nA table.\n"


def test_the_page_of_commands_does_not_lead_to_itself():
    assert "(commands.md)" not in Chapter(COMMANDS, "Commands", "", "", {"": "x"}).page()


def test_a_chapter_without_text_is_none():
    assert CHAPTER
    assert not Chapter("a", "A", "", "Opening.", {"Cost": ""})


def test_a_variation_is_a_file_name():
    assert slug("data-1/std") == "data-1-std"
