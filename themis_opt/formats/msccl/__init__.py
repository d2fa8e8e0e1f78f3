"""Schedules as programs of threadblocks: XML that MSCCL and RCCL run, and plans of MSCCL++."""
