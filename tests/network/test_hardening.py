"""Each weakened setting is found."""

import json

import pytest

from fedci.errors import OutputError
from fedci.network import hardening, kit, operations

SPOILED = {
    "class_allow_list": lambda f: f["resources"].update(class_allow_list=["*"]),
    "allow_log_streaming": lambda f: f["resources"].update(allow_log_streaming=True),
    "log streamer": lambda f: f["resources"]["components"].append({"id": "x", "path": "a.site_log_streamer.S"}),
    "fedci's launcher": lambda f: f["resources"]["components"][-1].update(path="nvflare.other_launcher.Launcher"),
    "byoc": lambda f: f["authorization"]["permissions"]["project_admin"].update(byoc="any"),
    "LeavingFilter": lambda f: f["privacy"]["scopes"][0].update(task_result_filters=[]),
}


@pytest.mark.parametrize("word", SPOILED)
def test_each_weakened_setting_is_found_even_under_a_new_seal(kits, word):
    own = kits / "kits" / "lyon"
    files = {name: json.loads((own / "local" / f"{name}.json").read_text())
             for name in ("resources", "authorization", "privacy")}
    assert hardening.problems(own / "local", server=False) == []
    SPOILED[word](files)
    for name, content in files.items():
        (own / "local" / f"{name}.json").write_text(json.dumps(content))
    kit.seal(own)
    with pytest.raises(OutputError, match=word):
        operations.check_kit(own, "site")
