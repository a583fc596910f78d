//! The command line: options in, exit code out. No decision about samples or stacks is taken here.

mod categories;
mod check;
mod diff;
mod fold;
mod input;
mod man;
mod output;
mod overwrite;

use crate::error::Error;
use crate::terminal;
use clap::{CommandFactory, Parser, Subcommand};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

const EXAMPLES: &str = "\
EXAMPLES
  perf script | stackfold > out.folded
  perf script -i perf.data --no-inline | stackfold --all-annotations --stats stats.json -o out.folded
  stackfold perf.data > out.folded
  stackfold check perf.data
  perf script -F +pid | stackfold -o out.pb.gz
  stackfold categories --rules rocksdb --view owner < out.folded
  stackfold diff --runs request.json -o frames.json

Folds profiler samples into weighted stacks, and weighted stacks into categories.
Without a subcommand, `fold` is meant.

Exit codes: 0 fine, 1 something was lost on the way (it says what), 2 the request must change.";

#[derive(Parser)]
#[command(name = "stackfold", version, about, long_about = EXAMPLES, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    fold: fold::FoldArgs,
}

#[derive(Subcommand)]
enum Command {
    #[command(about = "Fold samples into weighted stacks", long_about = fold::EXAMPLES)]
    Fold(Box<fold::FoldArgs>),
    #[command(about = "Sort weighted stacks into categories", long_about = categories::EXAMPLES)]
    Categories(categories::CategoriesArgs),
    #[command(about = "Compare a recording's fold with perf report", long_about = check::EXAMPLES)]
    Check(check::CheckArgs),
    #[command(about = "Compare what each frame costs on two sides, of one or many profiles each", long_about = diff::EXAMPLES)]
    Diff(diff::DiffArgs),
    #[command(about = "Print the man page", long_about = man::EXAMPLES)]
    Man(man::ManArgs),
}

/// Runs the command line; the number is the exit code.
pub fn run() -> u8 {
    let cli = Cli::parse();
    let result = match &cli.command {
        None => fold::run(&cli.fold),
        Some(Command::Fold(args)) => fold::run(args),
        Some(Command::Categories(args)) => categories::run(args),
        Some(Command::Check(args)) => check::run(args),
        Some(Command::Diff(args)) => diff::run(args),
        Some(Command::Man(args)) => man::run(args, Cli::command()),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            say(&format!("stackfold: {error}\n"));
            error.exit_code()
        }
    }
}

/// Standard input for `-`, else the file; of a directory as perf writes them, the one that has all.
fn open_input(path: &Path) -> Result<File, Error> {
    let data = path.join("data");
    if path.join("data.0").exists() && data.exists() {
        let shown = path.display();
        return Err(Error::usage(format!(
            "{shown} has a file for each thread of perf (perf record --threads); stackfold reads one that has all.\n\
             make it of them: perf inject -i {shown} -o {shown}.one; stackfold {shown}.one"
        )));
    }
    let opened = match path == Path::new("-") {
        true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        false => File::open(if data.is_file() { &data } else { path }),
    };
    opened.map_err(|error| Error::unreadable(path, &error))
}

/// A message on standard error.
fn say(text: &str) {
    let _ = io::stderr().write_all(terminal::lines(text).as_bytes());
}

/// The same as `write_output`, for text that people read: wherever it goes, what would steer a terminal is written out.
fn write_text(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    write_output(path, |out| {
        let mut out = terminal::EscapingWriter::new(out);
        write(&mut out)?;
        out.flush()
    })
}

/// Writes data to the file, or to standard output without one; a reader that has closed is no failure.
fn write_output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let (out, is_terminal): (Box<dyn Write>, bool) = match path {
        None => (Box::new(BufWriter::new(io::stdout().lock())), io::stdout().is_terminal()),
        Some(path) => {
            let file = File::create(path)
                .map_err(|error| Error::usage(format!("cannot write {}: {error}", path.display())))?;
            let is_terminal = file.is_terminal();
            (Box::new(BufWriter::new(file)), is_terminal)
        }
    };
    let mut out = if is_terminal { Box::new(terminal::EscapingWriter::new(out)) } else { out };
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if path.is_none() && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            let name = path.map_or("standard output".to_owned(), |path| path.display().to_string());
            Err(Error::partial(format!("writing {name} failed: {error}")))
        }
        Ok(()) => Ok(()),
    }
}
