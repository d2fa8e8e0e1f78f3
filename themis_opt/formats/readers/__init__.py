"""Files of other tools as parts of a problem: one format a file, each with its facts and its ``READER``."""
