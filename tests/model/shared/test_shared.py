"""θ of the model `shared` as a vector with names."""

from fedci.model.families import model_of
from fedci.study.options import SharedOptions

D, SITES = 3, 2
MODEL = model_of(SharedOptions(family="shared", directions=2, knots=4), D, D, SITES)


def test_names_follow_the_vector():
    names, mean = MODEL.names(), MODEL.prior[0]
    assert len(names) == MODEL.size == len(set(names))
    assert mean[names.index("noise[0]")] == -1.5
    assert mean[names.index("hinges[1,0]")] == -0.3
