//! Names of functions: what is cut from them, and what of them is compared.

#![forbid(unsafe_code)]

mod callers;
mod canonical;
mod spelling;

pub use callers::split_callers;
pub use canonical::canonical;
pub use spelling::{
    ComparableName, SHORT_STREAMS, Tidy, bare, cut_arguments, cut_offset, cut_templates, cut_version, escape,
    split_mark, tidy,
};
