"""What is said of figures that were taken while others were at work."""

from __future__ import annotations

from gnnplan.planner.report.units import seconds
from gnnplan.profiles.load import TOLERATED_LOAD
from gnnplan.profiles.machine import MachineProfile
from gnnplan.profiles.steal import TOLERATED_SHARE


def run_was_disturbed(others_share: float, stolen_share: float) -> list[str]:
    """By whom, in sentences; none where it was quiet."""
    said = []
    if stolen_share > TOLERATED_SHARE:
        said.append(f"{stolen_share:.0%} of the processor time went to other virtual machines: run it again")
    if others_share > TOLERATED_LOAD:
        said.append(
            f"other programs used {others_share:.0%} of the machine's processor time: run it again when it is quiet"
        )
    return said


def profile_was_disturbed(profile: MachineProfile) -> list[str]:
    """The same of a profile, and which of its figures were others at its end."""
    said = []
    if profile.others_share > TOLERATED_LOAD:
        said.append(
            f"{profile.name} was measured while other programs used {profile.others_share:.0%} of the processor time: "
            "its figures may be too long; measure again when the machine is quiet"
        )
    if drifted := profile.drifted:
        worst = max(drifted, key=lambda anchor: abs(anchor.again_s - anchor.first_s))
        said.append(
            f"{profile.name} drifted: {len(drifted)} of {len(profile.anchors)} points took another time at its end "
            f"({worst.operator}: {seconds(worst.first_s)}, then {seconds(worst.again_s)}); measure again"
        )
    return said
