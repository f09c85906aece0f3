"""The picture of an epoch is a readable PNG that is drawn from both traces."""

import numpy as np
import pytest
from matplotlib import image

from gnnplan.planner.report.epoch_spans import median_epoch
from gnnplan.planner.report.picture import write_picture
from gnnplan.planner.trace import Span, Trace
from gnnplan.profiles.errors import UserError


def trace_of(origin, *ends_of_epochs, category="compute"):
    """One span a worker and epoch, of the given lengths."""
    spans = tuple(
        Span(task="t", worker=worker, epoch=epoch, category=category, start_s=0, end_s=end)
        for epoch, end in enumerate(ends_of_epochs)
        for worker in (0, 1)
    )
    return Trace(
        origin=origin,
        plan_fingerprint="f",
        num_workers=2,
        spans=spans,
        epoch_s=ends_of_epochs,
        peak_bytes=(1, 1),
    )


def colors(path):
    """The distinct colours of a picture as hex."""
    pixels = (image.imread(path)[..., :3] * 255).round().astype(np.uint8).reshape(-1, 3)
    return {f"#{r:02x}{g:02x}{b:02x}" for r, g, b in np.unique(pixels, axis=0)}


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    """A picture with a row of computation above a row of communication for each worker."""
    path = tmp_path_factory.mktemp("picture") / "epoch.png"
    measured = trace_of("measured", 2.0, 3.0, 9.0, category="communicate")
    assert write_picture(path, trace_of("predicted", 1.0), measured) == path
    return path


def test_a_readable_png_is_written(picture):
    """Wide enough to read, and nothing is left beside it."""
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    height, width, _ = image.imread(picture).shape
    assert width > 1000
    assert height > 200
    assert [path.name for path in picture.parent.iterdir()] == ["epoch.png"]


@pytest.mark.long
def test_categories_have_their_colours(picture):
    """Computation and communication are both drawn."""
    assert {"#4477aa", "#ee6677"} <= colors(picture)


def test_longer_spans_are_wider(picture):
    """A bar three times as long covers about three times the pixels."""
    pixels = (image.imread(picture)[..., :3] * 255).round()
    count = [
        int((np.abs(pixels - np.array(rgb)).sum(-1) == 0).sum()) for rgb in ((0x44, 0x77, 0xAA), (0xEE, 0x66, 0x77))
    ]
    assert 2.5 < count[1] / count[0] < 3.5


@pytest.mark.parametrize(
    ("ends", "wanted"), [((1.0,), 0), ((5.0, 1.0, 2.0), 2), ((1.0, 1.0, 9.0), 0), ((4.0, 3.0, 2.0, 1.0), 1)]
)
def test_the_epoch_nearest_the_median_is_drawn(ends, wanted):
    """Neither the first, which warms up, nor an outlier; the earlier of two that are equally near."""
    assert median_epoch(trace_of("measured", *ends)) == wanted


def test_unwritable_picture_is_a_user_error(tmp_path):
    """One line, and no temporary file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_picture(tmp_path / "file" / "epoch.png", trace_of("predicted", 1.0), trace_of("measured", 1.0))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
