//! Read-only access to a tenant's workspace. The agent works there at the same time and may put anything there, so it
//! is treated as carefully as shares.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{
    FileEntry, FileLimits, FileText, FindQuery, FindResult, GrepQuery, GrepResult, LineRange,
    Listing, SharePath,
    budget::SearchBudget,
    directory::run_blocking,
    find, search, text,
    tree::{self, Tree},
};
use crate::{Problem, ProblemCode, storage::files::problems};

#[derive(Debug, Clone)]
pub struct Workspace {
    tree: Arc<Tree>,
    limits: FileLimits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// From the first byte to the last, if given; both from 0 and inclusive.
    From(u64, Option<u64>),
    Last(u64),
}

impl ByteRange {
    /// Parses `bytes=0-99`, `bytes=100-` or `bytes=-100`. Other units and multiple ranges may be ignored: the whole
    /// file is sent then.
    pub fn parse(header: &str) -> Option<Self> {
        let (first, last) = header.trim().strip_prefix("bytes=")?.split_once('-')?;
        let number = |text: &str| text.trim().parse().ok();
        if first.trim().is_empty() {
            return Some(Self::Last(number(last)?));
        }
        let first = number(first)?;
        if last.trim().is_empty() {
            return Some(Self::From(first, None));
        }
        let last = number(last)?;
        (first <= last).then_some(Self::From(first, Some(last)))
    }

    /// Start and length in a file of that size; `None` if it is outside.
    pub fn resolve(self, size: u64) -> Option<(u64, u64)> {
        match self {
            Self::From(first, last) if first < size => {
                let last = last.unwrap_or(u64::MAX).min(size - 1);
                Some((first, last - first + 1))
            }
            Self::Last(count) if count > 0 && size > 0 => {
                let length = count.min(size);
                Some((size - length, length))
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
pub struct Download {
    pub entry: FileEntry,
    pub start: u64,
    pub length: u64,
    /// Positioned at the start of the range; it may be longer than the range.
    pub file: tokio::fs::File,
}

impl Workspace {
    /// Opens a directory of a home, refusing a link.
    pub fn open(home: &Path, name: &str, limits: FileLimits) -> io::Result<Self> {
        Ok(Self {
            tree: Arc::new(Tree::open_in(home, name)?),
            limits,
        })
    }

    pub(super) fn tree(&self) -> Arc<Tree> {
        Arc::clone(&self.tree)
    }

    /// Lists one level.
    pub async fn list(&self, path: &SharePath) -> Result<Listing, Problem> {
        let (tree, path, most) = (self.tree.clone(), path.clone(), self.limits.list_entries);
        run_blocking(move || tree.list(&path, most)).await
    }

    pub async fn stat(&self, path: &SharePath) -> Result<FileEntry, Problem> {
        let (tree, path) = (self.tree.clone(), path.clone());
        run_blocking(move || tree.stat(&path)).await
    }

    /// Reads lines of a text file.
    pub async fn read(&self, path: &SharePath, lines: LineRange) -> Result<FileText, Problem> {
        let (tree, path, most) = (self.tree.clone(), path.clone(), self.limits.read_bytes);
        run_blocking(move || text::read_lines(&tree, &path, lines, most)).await
    }

    /// Searches contents; stops early when cancelled, or when the caller goes away.
    pub async fn grep(
        &self,
        query: GrepQuery,
        cancel: CancellationToken,
    ) -> Result<GrepResult, Problem> {
        let (tree, cancel) = (self.tree.clone(), cancel.child_token());
        let _guard = cancel.clone().drop_guard();
        run_blocking(move || search::search_tree(&tree, &query, SearchBudget::new(cancel))).await
    }

    /// Searches names; stops early like [`Self::grep`].
    pub async fn find(
        &self,
        query: FindQuery,
        cancel: CancellationToken,
    ) -> Result<FindResult, Problem> {
        let (tree, cancel) = (self.tree.clone(), cancel.child_token());
        let _guard = cancel.clone().drop_guard();
        run_blocking(move || find::find_paths(&tree, &query, SearchBudget::new(cancel))).await
    }

    pub async fn download(
        &self,
        path: &SharePath,
        range: Option<ByteRange>,
    ) -> Result<Download, Problem> {
        let (tree, path) = (self.tree.clone(), path.clone());
        let (entry, start, length, file) =
            run_blocking(move || open_part(&tree, &path, range)).await?;
        Ok(Download {
            entry,
            start,
            length,
            file: tokio::fs::File::from_std(file),
        })
    }
}

fn open_part(
    tree: &Tree,
    path: &SharePath,
    range: Option<ByteRange>,
) -> Result<(FileEntry, u64, u64, File), Problem> {
    let (mut file, file_stat) = tree.open_file(path)?;
    let entry = tree::file_entry(path.as_str().to_owned(), &file_stat)
        .ok_or_else(|| problems::special_file(path))?;
    let (start, length) = match range {
        None => (0, entry.size),
        Some(range) => range.resolve(entry.size).ok_or_else(|| {
            Problem::new(
                ProblemCode::InvalidArgument,
                format!("`{path}` has {} bytes; the range lies outside", entry.size),
            )
            .with_reason("range")
            .with_detail("Range", "outside of the file")
        })?,
    };
    file.seek(SeekFrom::Start(start))
        .map_err(|error| problems::problem_from_io(&error, path))?;
    Ok((entry, start, length, file))
}

/// Bytes of a file from a position on, at most so many; none behind its end.
pub(super) fn read_part(
    tree: &Tree,
    path: &SharePath,
    start: u64,
    most: usize,
) -> Result<(FileEntry, Bytes), Problem> {
    let fault = |error| problems::problem_from_io(&error, path);
    let (mut file, file_stat) = tree.open_file(path)?;
    let entry = tree::file_entry(path.as_str().to_owned(), &file_stat)
        .ok_or_else(|| problems::special_file(path))?;
    file.seek(SeekFrom::Start(start)).map_err(fault)?;
    let mut bytes = Vec::new();
    file.take(most as u64)
        .read_to_end(&mut bytes)
        .map_err(fault)?;
    Ok((entry, bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_file() {
        let within = |header: &str, size| ByteRange::parse(header).unwrap().resolve(size);
        assert_eq!(within("bytes=0-99", 10), Some((0, 10)));
        assert_eq!(within("bytes=2-3", 10), Some((2, 2)));
        assert_eq!(within("bytes=9-", 10), Some((9, 1)));
        assert_eq!(within("bytes=-3", 10), Some((7, 3)));
        assert_eq!(within("bytes=-30", 10), Some((0, 10)));
        assert_eq!(within("bytes=10-", 10), None);
        assert_eq!(within("bytes=-0", 10), None);
        assert_eq!(within("bytes=0-", 0), None);
    }

    #[test]
    fn what_is_not_a_single_range_of_bytes_is_not_understood() {
        for header in [
            "items=0-1",
            "bytes=3-2",
            "bytes=a-b",
            "bytes=0-1,4-5",
            "bytes=",
        ] {
            assert_eq!(ByteRange::parse(header), None, "{header}");
        }
    }
}
