"""Carriers of the messages of a run: one module per transport, all behind :class:`themis_opt.runtime.links.Link`."""
