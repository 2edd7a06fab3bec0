//! Deleting a tree through descriptors: no link in it is followed, whatever happens there meanwhile.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd},
};

use hermes_config::beneath::open_directory;
use rustix::{
    fs::{AtFlags, Dir, FileType, statat, unlinkat},
    io::Errno,
};

use super::tree::read_entries;

/// Deeper than anything that an agent creates.
const MAX_DEPTH: usize = 64;

/// Deletes a file, a link, or a directory with its contents.
pub(super) fn delete_tree(directory: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    delete_level(directory, name, 0)
}

fn delete_level(directory: BorrowedFd<'_>, name: &CStr, depth: usize) -> Result<(), Errno> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return unlinkat(directory, name, AtFlags::empty());
    }
    if depth > MAX_DEPTH {
        return Err(Errno::NAMETOOLONG);
    }
    let inside = open_directory(directory, name)?;
    let (_, below) = read_entries(Dir::read_from(&inside)?)?;
    for entry in below {
        match delete_level(inside.as_fd(), &entry.name, depth + 1) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    unlinkat(directory, name, AtFlags::REMOVEDIR)
}
