//! Problems for file operations, from system errors.

use rustix::io::Errno;

use crate::{Code, Problem, files::SharePath};

pub(crate) fn problem(error: Errno, path: &SharePath) -> Problem {
    match error {
        Errno::NOENT => missing(path),
        Errno::EXIST => exists(path),
        Errno::NOTDIR => Problem::precondition(format!(
            "a part of `{path}` is not a directory: name another path"
        ))
        .because("not_a_directory"),
        Errno::ISDIR => is_directory(path),
        Errno::NOTEMPTY => {
            Problem::precondition(format!("`{path}` is not empty")).because("not_empty")
        }
        Errno::LOOP | Errno::XDEV => link(path),
        Errno::NOSPC | Errno::DQUOT => Problem::new(
            Code::OutOfSpace,
            "the Hub's disk is full: nothing was written; tell its operator",
        )
        .because("disk_full"),
        Errno::FBIG => Problem::new(
            Code::PayloadTooLarge,
            format!("`{path}` would become larger than the Hub's machine allows"),
        ),
        Errno::NAMETOOLONG => Problem::invalid(format!("`{path}` is too long for the file system")),
        Errno::NXIO | Errno::NODEV => special(path),
        Errno::ACCESS | Errno::PERM => Problem::precondition(format!(
            "the Hub may not open `{path}`: its owner has taken that right away"
        ))
        .because("no_access"),
        Errno::AGAIN | Errno::MFILE | Errno::NFILE => Problem::new(
            Code::Unavailable,
            format!("`{path}` cannot be opened at the moment: try again"),
        )
        .retry_after(1000),
        other => Problem::internal(&format_args!("`{path}`: {other}")),
    }
}

pub(crate) fn io_problem(error: &std::io::Error, path: &SharePath) -> Problem {
    match Errno::from_io_error(error) {
        Some(errno) => problem(errno, path),
        None => Problem::internal(&format_args!("`{path}`: {error}")),
    }
}

pub(crate) fn missing(path: &SharePath) -> Problem {
    Problem::not_found(format!("there is no `{path}`"))
}

pub(crate) fn exists(path: &SharePath) -> Problem {
    Problem::new(
        Code::AlreadyExists,
        format!("`{path}` exists: remove it first, or take another name"),
    )
}

pub(crate) fn is_directory(path: &SharePath) -> Problem {
    Problem::precondition(format!("`{path}` is a directory: name a file")).because("is_a_directory")
}

pub(crate) fn not_directory(path: &SharePath) -> Problem {
    Problem::precondition(format!("`{path}` is not a directory: name one")).because("not_a_directory")
}

pub(crate) fn link(path: &SharePath) -> Problem {
    Problem::precondition(format!(
        "`{path}` is or contains a symbolic link, which is not followed here: name the target itself"
    ))
    .because("symlink")
}

pub(crate) fn hard_link(path: &SharePath) -> Problem {
    Problem::precondition(format!(
        "`{path}` has other names (hard links) and is not written: remove it first"
    ))
    .because("hard_link")
}

pub(crate) fn special(path: &SharePath) -> Problem {
    Problem::precondition(format!(
        "`{path}` is neither file nor directory and is left alone"
    ))
    .because("special_file")
}

pub(crate) fn binary(path: &SharePath) -> Problem {
    Problem::new(
        Code::UnsupportedMediaType,
        format!("`{path}` is not UTF-8 text"),
    )
}
