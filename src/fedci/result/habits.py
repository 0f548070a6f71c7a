"""What users of pandas, scikit-learn and EconML ask of a result, and what to ask instead."""

from __future__ import annotations

HABITS = {
    "predict": ": effects of new people are result.effect(X), with intervals result.effect_interval(X)",
    "const_marginal_effect": ": the expected effect is result.effect(X)", "marginal_effect": ": ask result.effect(X)",
    "ate_inference": ": result.ate() has .mean, .sd and .interval()", "params": ": ask result.summary()",
    "conf_int": ": ask result.ate_interval()", "coef_": ": there are no coefficients; see result.drivers()",
    "score": ": see result.diagnostics.fit", "to_csv": ": result.save('folder') writes effects.csv",
    "plot": ": write_report('folder') makes a page with plots"}
