"""Policies across collectives, one file each: what is fused or split, and when it is launched."""
