"""The door to the formulations: problems as their data, and their answers as bounds, plans and sizes."""
