"""A job from what was asked to an analysed run: the one layer that calls every room."""
