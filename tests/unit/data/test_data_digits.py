import numpy as np
import pytest
from sklearn.datasets import load_digits

from hedgerow.data import Scanner, deal, load


@pytest.fixture(scope="module")
def domains():
    return load("digits")


def test_every_image_is_in_exactly_one_domain_and_every_class_in_each(domains):
    y = load_digits().target
    assert sum(len(domain) for domain in domains.values()) == len(y) == 1797
    for i, domain in enumerate(domains.values()):
        assert np.array_equal(domain.y, y[deal(y, 5) == i])
        assert np.bincount(domain.y).min() >= 34
        assert np.bincount(domain.y).max() <= 37


def test_pixels_are_ink_and_no_image_is_blank(domains):
    for name, domain in domains.items():
        assert domain.name == name
        assert domain.X.dtype == np.float64
        assert domain.X.min() >= 0
        assert domain.X.max() <= 16 + 1e-9
        assert (domain.X.max(axis=1) - domain.X.min(axis=1) > 4).all()
        assert len(domain.feature_names) == 64


@pytest.mark.parametrize(
    ("setting", "moved_to"), [({"down": 1}, (3, 2)), ({"right": 1}, (2, 3)), ({"down": -1}, (1, 2))]
)
def test_directions_are_as_the_table_says(setting, moved_to):
    image = np.zeros((1, 8, 8))
    image[0, 2, 2] = 1
    assert tuple(np.argwhere(Scanner(**setting).take(image)[0] > 0)[0]) == moved_to


def test_a_positive_turn_is_counter_clockwise():
    image = np.zeros((1, 8, 8))
    image[0, 3:5, 4:] = 1  # a bar to the right of the centre rises
    rows, _ = np.nonzero(Scanner(turn=25).take(image)[0] > 0.5)
    assert rows.mean() < 3


def test_the_shift_matters_more_than_the_sample(domains):
    """By nearest class mean: other domains' means err more than twice as often as held-out rows of one's own."""
    for target in domains.values():
        half = np.arange(len(target)) % 2 == 0
        own = _error(target.X[half], target.y[half], target.X[~half], target.y[~half])
        others = [_error(d.X, d.y, target.X, target.y) for d in domains.values() if d is not target]
        assert own < 0.2
        assert np.mean(others) > 2 * own


def _error(X, y, X_new, y_new):
    means = np.array([X[y == k].mean(axis=0) for k in range(10)])
    nearest = ((X_new[:, None, :] - means) ** 2).sum(axis=2).argmin(axis=1)
    return np.mean(nearest != y_new)
