//! Weighted stacks into categories: rules are data, this is what applies them.

pub mod classify;
pub mod report;
mod rule_files;
pub mod rules;
pub mod table;

pub use classify::{Classification, Classifier};
pub use report::CategoryReport;
pub use rules::{Rules, View};
