//! Files that one request names twice: an output written over an input, or over another output, would destroy it.

use crate::error::Error;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file, whatever names it has.
#[derive(PartialEq, Eq)]
enum FileIdentity {
    Existing {
        device: u64,
        inode: u64,
    },
    /// It is not there yet.
    New(PathBuf),
}

/// Refuses a request whose output is one of its inputs, `-` being standard input, or another output; outputs have their
/// options.
///
/// An output of no name goes to standard output. Devices and pipes may be named as often as one likes.
pub fn refuse_overwriting<'a>(
    inputs: impl IntoIterator<Item = &'a Path>,
    outputs: impl IntoIterator<Item = (&'static str, Option<&'a Path>)>,
) -> Result<(), Error> {
    let mut known = Vec::new();
    for path in inputs {
        let is_stdin = path == Path::new("-");
        let file = if is_stdin { identity_of_descriptor(io::stdin()) } else { identity_of_path(path) };
        // One that is not there will be missed soon enough.
        let file = file.filter(|file| !matches!(file, FileIdentity::New(_)));
        known.extend(file.map(|file| ("the input", path, file)));
    }
    for (option, path) in outputs {
        let file = path.map_or_else(|| identity_of_descriptor(io::stdout()), identity_of_path);
        let Some(file) = file else { continue };
        let path = path.unwrap_or(Path::new("standard output"));
        if let Some((other, name, _)) = known.iter().find(|(_, _, other)| *other == file) {
            return Err(Error::usage(format!(
                "{option} {} and {other} {} are the same file, and writing one would destroy the other; \
                 give {option} a name of its own",
                path.display(),
                name.display()
            )));
        }
        known.push((option, path, file));
    }
    Ok(())
}

fn identity_of_path(path: &Path) -> Option<FileIdentity> {
    match fs::metadata(path) {
        Ok(data) => identity_of(&data),
        Err(error) if error.kind() == io::ErrorKind::NotFound => target(path).map(FileIdentity::New),
        // Opening it will say what is wrong.
        Err(_) => None,
    }
}

fn identity_of(data: &fs::Metadata) -> Option<FileIdentity> {
    data.is_file().then(|| FileIdentity::Existing { device: data.dev(), inode: data.ino() })
}

fn identity_of_descriptor(descriptor: impl AsFd) -> Option<FileIdentity> {
    let file = File::from(descriptor.as_fd().try_clone_to_owned().ok()?);
    identity_of(&file.metadata().ok()?)
}

/// Where a file will be made: a link may lead to where nothing is yet.
fn target(path: &Path) -> Option<PathBuf> {
    const LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let parent = fs::canonicalize(parent).ok()?;
        match fs::read_link(&path) {
            Ok(link) => path = parent.join(link),
            Err(_) => return Some(parent.join(path.file_name()?)),
        }
    }
    None
}
