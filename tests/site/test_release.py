"""What `fedci check` says would leave is what leaves."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from fedci import Source
from fedci.estimator import FedCI
from fedci.protocol import engine as engines
from fedci.protocol.requests import OWN, row_of
from fedci.site.release import release
from support.commanded import FAST, SHORT, told
from tests_support import frame, study


class Recorder(engines.InProcessEngine):
    """Remembers the arrays of site a's answers."""

    def _ask(self, name, request):
        back = super()._ask(name, request)
        if name == "a":
            refuter = request.run.partition("-")[2]
            phase = f"{refuter}: {row_of(request).phase}" if refuter else row_of(request).phase
            sums = getattr(back, "sums", None) or vars(back)
            self.seen.append((phase, {name.removeprefix(OWN): part for name, part in sums.items()}))
        return back


@pytest.mark.parametrize("preset", ["default", "classic", "few", "drawn"])
def test_what_check_says_would_leave_is_what_leaves(preset, monkeypatch):
    """Names, shapes and the moments' numbers of a real run beside the promise; the fit may ask for fewer rounds."""
    from fedci import estimator

    Recorder.seen = []
    monkeypatch.setattr(estimator, "InProcessEngine", Recorder)
    drawn, preset = preset == "drawn", "default" if preset == "drawn" else preset
    plan = study(preset=preset, options=SHORT if preset == "classic" else FAST, ids="id")
    table = frame(40, 0).assign(id=[f"P{i}" for i in range(40)])
    if preset == "classic":  # a column more, which marks where a value was missing
        table.loc[3:6, "age"] = np.nan
        plan = study(preset=preset, options=SHORT, ids="id", missing="impute", diagnostics={"refute": ["placebo"]})
    if drawn:
        table.loc[3:6, "age"] = np.nan
        plan = study(preset=preset, options=FAST, ids="id", missing="model", diagnostics={"enabled": True})
    sources = [Source("a", table), Source("b", frame(37, 1).assign(id=[f"Q{i}" for i in range(37)]))]
    FedCI(plan).fit(sources)
    promised = release(plan, sources[0].read(plan))
    left: dict = {}
    for phase, sums in Recorder.seen:
        for name, value in sums.items():
            if isinstance(value, np.ndarray):
                left.setdefault((phase, name), []).append(value.shape)
    wanted = {(one.phase, one.name) for one in promised.sums}
    assert left.keys() == wanted
    for (phase, name), shapes in left.items():
        allowed = Counter()
        for one in promised.sums:
            allowed[one.shape] += one.times if (one.phase, one.name) == (phase, name) else 0
        assert all(count <= allowed[shape] for shape, count in Counter(shapes).items()), (phase, name)
    means = {phase: sums for phase, sums in Recorder.seen if phase.endswith("moments") and "y_total" in sums}
    lines = {one.column: one for one in promised.moments}
    assert {name: lines[name].mean for name in ("age", "bmi", "sex")} == pytest.approx(
        dict(zip(("age", "bmi", "sex"), means["moments"]["total"] / means["moments"]["count"], strict=True)), rel=1e-12)
    if preset == "classic":
        count, total = means["placebo: moments"]["y_count"], means["placebo: moments"]["y_total"]
        assert lines["y (treated) [placebo]"].mean == pytest.approx(total[1] / count[1], rel=1e-12)


def test_check_refuses_what_the_site_would_refuse(tmp_path, capsys):
    study(preset="default", policy={"name": "custom", "secure_sum": "auto"}).write(tmp_path / "study.toml")
    frame(90, 0).to_csv(tmp_path / "a.csv", index=False)
    code, _, err = told(capsys, "check", tmp_path / "study.toml", tmp_path / "a.csv", "--sites", "2")
    assert code == 3
    assert "columns per person" in err


def test_check_shows_the_numbers_that_would_leave(place, capsys):
    code, out, _ = told(capsys, "check", place / "study.toml", place / "a.csv", "--json")
    found = json.loads(out)
    assert code == 0
    age = pd.read_csv(place / "a.csv").age
    assert found["moments"][0]["column"] == "age"
    assert found["moments"][0]["mean"] == pytest.approx(age.mean(), rel=1e-12)
    code, out, _ = told(capsys, "check", place / "study.toml", place / "a.csv")
    assert "number by number" in out
    assert "Nothing has left now" in out


def test_the_numbers_told_per_person_are_all_that_would_leave_over_the_people():
    plan = study(preset="default")
    found = release(plan, Source("a", frame(40, 0)).read(plan))
    assert found.told_per_person == sum(part.numbers for part in found.sums) / 40
    assert found.plain()["numbers_told_per_person"] == found.told_per_person > 1


def test_what_a_site_tells_of_its_own_effects_beside_a_masked_sum_is_counted():
    """37 numbers of the site alone, in the clear: 2 × 3 of expected and 2 × 12 of realised effects, 4 sds, 3 counts."""
    told, untold = (release(study(preset="default", policy={"name": "custom", "site_effects": said}),
                            Source("a", frame(40, 0)).read(study(preset="default")), sites=3)
                    for said in (True, False))
    assert sum(part.numbers for part in told.sums) - sum(part.numbers for part in untold.sums) == 37
    clear = release(study(preset="default"), Source("a", frame(40, 0)).read(study(preset="default")), sites=2)
    assert not [part for part in clear.sums if part.name.startswith(OWN)]
