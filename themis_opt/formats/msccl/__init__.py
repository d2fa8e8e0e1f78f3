"""MSCCL XML: schedules as programs of threadblocks, which the NCCL of MSCCL and RCCL run on GPUs.

:mod:`~themis_opt.formats.msccl.transfers` says which data move where, :mod:`~themis_opt.formats.msccl.threadblocks`
who moves them and what waits for what, :mod:`~themis_opt.formats.msccl.algorithm` is the file, and
:mod:`~themis_opt.formats.msccl.interpreter` runs it on data.
"""
