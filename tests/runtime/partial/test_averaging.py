"""The mean of the last weights: which count, and when they are taken over."""

import torch

from gnnplan.runtime.partial.averaging import WeightMean


def test_the_last_steps_count_and_their_mean_is_taken_over_once():
    """Steps before and after leave the weights alone; each of several parameters has its own mean."""
    first, second = torch.zeros(2), torch.zeros(1)
    mean = WeightMean([first, second], 3, 6)
    for number in range(8):
        first.copy_(torch.tensor([number, 2.0 * number]))
        second.fill_(-number)
        mean.after(number)
        expected = 4.5 if number == 6 else number
        assert first.tolist() == [expected, 2 * expected]
        assert second.tolist() == [-expected]


def test_without_averaging_weights_stay():
    """No step counts where the first is after the last."""
    weights = torch.ones(3, requires_grad=True)
    mean = WeightMean([weights], 5, 4)
    for number in range(5):
        mean.after(number)
    assert weights.tolist() == [1.0] * 3
