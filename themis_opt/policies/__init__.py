"""Policies: from an instance to a plan.  A new policy is one file and one line in the registry."""
