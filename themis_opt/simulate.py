from themis_opt.simulator import *  # noqa
