"""Two or more arms, run in turns: resolved, given a tree each, measured session by session, judged."""
