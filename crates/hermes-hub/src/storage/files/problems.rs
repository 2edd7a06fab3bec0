//! Problems for file operations, from system errors.

use rustix::io::Errno;

use crate::{Problem, ProblemCode, storage::files::SharePath};

pub(crate) fn problem_from_errno(error: Errno, path: &SharePath) -> Problem {
    match error {
        Errno::NOENT => path_not_found(path),
        Errno::EXIST => already_exists(path),
        Errno::NOTDIR => Problem::precondition(format!(
            "a part of `{path}` is not a directory: name another path"
        ))
        .with_reason("not_a_directory"),
        Errno::ISDIR => is_a_directory(path),
        Errno::NOTEMPTY => {
            Problem::precondition(format!("`{path}` is not empty")).with_reason("not_empty")
        }
        Errno::LOOP | Errno::XDEV => symlink_not_followed(path),
        Errno::NOSPC | Errno::DQUOT => Problem::new(
            ProblemCode::OutOfSpace,
            "the Hub's disk is full: nothing was written; tell its operator",
        )
        .with_reason("disk_full"),
        Errno::FBIG => Problem::new(
            ProblemCode::PayloadTooLarge,
            format!("`{path}` would become larger than the Hub's machine allows"),
        ),
        Errno::NAMETOOLONG => Problem::invalid(format!("`{path}` is too long for the file system")),
        Errno::NXIO | Errno::NODEV => special_file(path),
        Errno::ACCESS | Errno::PERM => Problem::precondition(format!(
            "the Hub may not open `{path}`: its owner has taken that right away"
        ))
        .with_reason("no_access"),
        Errno::AGAIN | Errno::MFILE | Errno::NFILE => Problem::new(
            ProblemCode::Unavailable,
            format!("`{path}` cannot be opened at the moment: try again"),
        )
        .with_retry_after(1000),
        other => Problem::internal(&format_args!("`{path}`: {other}")),
    }
}

pub(crate) fn problem_from_io(error: &std::io::Error, path: &SharePath) -> Problem {
    match Errno::from_io_error(error) {
        Some(errno) => problem_from_errno(errno, path),
        None => Problem::internal(&format_args!("`{path}`: {error}")),
    }
}

pub(crate) fn path_not_found(path: &SharePath) -> Problem {
    Problem::not_found(format!("there is no `{path}`"))
}

pub(crate) fn already_exists(path: &SharePath) -> Problem {
    Problem::new(
        ProblemCode::AlreadyExists,
        format!("`{path}` exists: remove it first, or take another name"),
    )
}

pub(crate) fn is_a_directory(path: &SharePath) -> Problem {
    Problem::precondition(format!("`{path}` is a directory: name a file"))
        .with_reason("is_a_directory")
}

pub(crate) fn not_a_directory(path: &SharePath) -> Problem {
    Problem::precondition(format!("`{path}` is not a directory: name one"))
        .with_reason("not_a_directory")
}

pub(crate) fn not_empty(path: &SharePath, entries: u64) -> Problem {
    let noun = if entries == 1 { "entry" } else { "entries" };
    Problem::precondition(format!(
        "`{path}` is not empty ({entries} {noun}); pass recursive=true"
    ))
    .with_reason("not_empty")
    .with_detail("recursive", "required")
}

pub(crate) fn write_too_large(most: usize, length: usize) -> Problem {
    Problem::new(
        ProblemCode::PayloadTooLarge,
        format!(
            "a write has at most {most} bytes, and this has {length}: append the rest afterwards"
        ),
    )
}

pub(crate) fn root_not_moved() -> Problem {
    Problem::invalid("the root is neither moved nor replaced")
        .with_detail("from", "the root stays where it is")
}

pub(crate) fn moved_into_itself(from: &SharePath) -> Problem {
    Problem::invalid(format!("`{from}` cannot be moved into itself"))
        .with_detail("to", "lies within `from`")
}

pub(crate) fn root_not_removed() -> Problem {
    Problem::invalid("the root cannot be removed: remove what is in it")
        .with_detail("path", "the root stays")
}

pub(crate) fn symlink_not_followed(path: &SharePath) -> Problem {
    Problem::precondition(format!(
        "`{path}` is or contains a symbolic link, which is not followed here: name the target itself"
    ))
    .with_reason("symlink")
}

pub(crate) fn hard_linked(path: &SharePath) -> Problem {
    Problem::precondition(format!(
        "`{path}` has other names (hard links) and is not written: remove it first"
    ))
    .with_reason("hard_link")
}

pub(crate) fn special_file(path: &SharePath) -> Problem {
    Problem::precondition(format!(
        "`{path}` is neither file nor directory and is left alone"
    ))
    .with_reason("special_file")
}

pub(crate) fn binary_file(path: &SharePath) -> Problem {
    Problem::new(
        ProblemCode::UnsupportedMediaType,
        format!("`{path}` is not UTF-8 text"),
    )
}
