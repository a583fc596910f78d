"""Samples to weighted stacks to categories: the Rust crate `stackfold`, its rules, and how we call it."""
