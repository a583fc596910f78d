//! The command `stackfold`; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(stackfold::cli::run())
}
