"""One flame graph under every output: stacks, their tree, which frames are drawn and what fits into them, colours."""
