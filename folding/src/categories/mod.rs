//! Weighted stacks into categories: rules are data, this is what applies them.

pub mod classify;
pub mod report;
pub mod rules;
pub mod table;

pub use classify::{Classifier, Place};
pub use report::Report;
pub use rules::{Rules, View};
