"""From a plan to a schedule: exact times, the rules they obey, and why they are what they are."""
