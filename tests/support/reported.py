"""Hostile names, an outlier, diagnostics made up: what a report must survive."""

from html.parser import HTMLParser

import numpy as np

from tests_support import frame, study

HOSTILE = '<img src=x onerror=alert(1)>"\'`{{7*7}}'
DIAGNOSTICS = {
    "balance": [{"covariate": name, "before": 0.4 - 0.1 * k, "after": 0.02 * k} for k, name in enumerate("abc")],
    "overlap": {"edges": [0.0, 0.25, 0.5, 0.75, 1.0], "treated": [1, 4, 9, 6], "control": [7, 8, 4, 1]},
    "heterogeneity": {"sites": [{"site": HOSTILE, "mean": 1.0, "low": 0.5, "high": 1.5}], "figures": {"I²": 0.2},
                      "leave_one_out": [{"site": "oslo", "mean": 1.1, "low": 0.5, "high": 1.6}]},
    "sensitivity": [{"name": "Hidden confounder", "x_label": "strength", "x": [0, 1, 2], "mean": [1.0, 0.5, 0.0],
                     "low": [0.5, 0.0, -0.5], "high": [1.5, 1.0, 0.5]}],
    "refuters": [{"name": "placebo treatment", "estimate": 0.01, "low": -0.2, "high": 0.2, "expected": "no effect",
                  "verdict": "fine"}],
    "calibration": [{"expected": 0.1, "observed": 0.12, "count": 40}, {"expected": 0.6, "observed": 0.58}],
}


OUTLIER = 73.71234
"""One person's bmi: so far out that no mean or grid comes near it."""


def hospital(rows, seed):
    made = frame(rows, seed).assign(stage=np.array(["I", "II", "III"])[np.arange(rows) % 3])
    made.loc[5, "bmi"] = OUTLIER
    return made


def plan(**changes):
    covariates = {"age": {"range": [0, 120]}, "bmi": {}, "sex": "binary",
                  "stage": {"type": "categorical", "levels": ["I", "II", "III"]}}
    return study(**({"covariates": covariates, "preset": "default", "name": "statins"} | changes))


class Names(HTMLParser):
    """Tags, ids and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.attributes, self.text = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id" and tag == "section"]

    def handle_data(self, data):
        self.text.append(data)
