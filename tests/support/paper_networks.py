"""Names of the shipped networks of the paper."""

PAPER_NETWORKS = (
    "2d-sw_sw",
    "3d-sw_sw_sw_homo",
    "3d-sw_sw_sw_hetero",
    "3d-fc_ring_sw",
    "4d-ring_sw_sw_sw",
    "4d-ring_fc_ring_sw",
)
"""Themis (ISCA 2022), table 2."""
