"""What each ingredient brings, as two tables."""

from fedci.benchmark.pages import ablation
from fedci.benchmark.pages.summary import summarise
from fedci.benchmark.run.methods import ABLATIONS
from support.figures import cells, failed, rows

LINEAR, ONE, POINT = "FedCI, linear", "FedCI, one direction", "FedCI, point estimates"


def test_variants_follow_fedci_in_their_own_order_with_their_differences():
    text = ablation.ingredient_table(summarise(
        cells([1.0, 2.0, 3.0]) + cells([1.5, 2.0, 2.8], POINT) + cells([3.0, 5.0, 4.0], LINEAR)
        + cells([1.0, 1.0, 1.0], dataset="data-2", sources=1)
        + cells([2.0, 2.0, 5.0], LINEAR, dataset="data-2", sources=1) + cells([0.0], "BART", "com")))
    header = text.splitlines()[2]
    assert header == "|  | DATA-1, 3 sources | DATA-2, 1 source |"
    found = rows(text)
    assert [name for name in found if name.startswith("FedCI")] == ["FedCI", LINEAR, POINT]
    assert found["FedCI"] == ["2.00 ± 0.58", "1.00 ± 0.00"]
    assert found[LINEAR] == ["4.00 ± 0.58<br>*+2.00 ± 0.58*",  # 2, 3, 1
                             "3.00 ± 1.00<br>*+2.00 ± 1.00*"]  # 1, 1, 4
    assert found[POINT] == ["2.10 ± 0.38<br>*+0.10 ± 0.21*", "–"]  # 0.5, 0, −0.2: sd √0.13
    assert "over 3 replications" in text


def test_differences_of_variants_are_over_common_replications():
    found = rows(ablation.ingredient_table(summarise(
        cells([1.0, 2.0, 3.0]) + cells([1.5, 2.5, 3.5], ONE) + cells([2.0, 4.0], LINEAR))))
    assert found[LINEAR] == ["3.00 ± 1.00 [2]<br>*+1.50 ± 0.50 [2]*"]  # 1, 2


def test_ihdp_has_medians_too():
    found = rows(ablation.ingredient_table(summarise(
        cells([1.0, 2.0, 6.0], dataset="ihdp") + cells([1.5, 1.8, 9.0], ONE, dataset="ihdp"))))
    assert found["FedCI"] == ["3.00 ± 1.53 (2.00)"]
    assert found[ONE] == ["4.10 ± 2.45 (1.80)<br>*+1.10 ± 0.97 (+0.50)*"]  # 0.5, −0.2, 3


def test_a_variant_that_failed_says_so():
    text = ablation.ingredient_table(summarise(cells([1.0, 2.0]) + failed(2, LINEAR, "fed")))
    assert rows(text)[LINEAR] == ["failed¹"]
    assert "¹ FedCI, linear, fed, 3 sources: failed in all 2 replications: ValueError: a \\| b" in text


def test_coverage_of_variants():
    found = rows(ablation.ingredient_coverage_table(summarise(
        cells([1.0, 1.0], coverage=0.95) + cells([1.0], POINT, coverage=0.8) + cells([1.0], LINEAR)
        + cells([1.0], dataset="data-2", coverage=0.9))))
    assert (found["FedCI"], found[POINT]) == (["0.95", "0.90"], ["0.80", "–"])
    assert LINEAR not in found


def test_no_rows_of_variants_no_tables():
    assert ablation.ingredient_table({}) == ablation.ingredient_coverage_table({}) == ""


def test_every_variant_has_a_row():
    found = rows(ablation.ingredient_table(summarise([cell for name in ABLATIONS for cell in cells([1.0], name)])))
    assert list(found)[2:] == list(ABLATIONS)
