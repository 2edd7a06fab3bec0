//! Parts of files as they are, and the trash of a share.

use std::io::{Read, Seek, SeekFrom};

use bytes::{Bytes, BytesMut};

use super::{
    ObjectShare,
    change::{make_directories, missing_directories},
    file_entry,
};
use crate::{
    Problem,
    storage::{
        files::{
            EntryType, FileEntry, SharePath, TRASH_ENTRIES, TrashedEntry, TreeUsage, problems,
            run_blocking,
        },
        state::RemovedEntry,
    },
};

impl ObjectShare {
    pub(super) async fn read_part(
        &self,
        path: &SharePath,
        start: u64,
        most: usize,
    ) -> Result<(FileEntry, Bytes), Problem> {
        let (entry, parts) = self.find_file(path).await?;
        let mut skipped = start;
        let mut bytes = BytesMut::new();
        for part in parts {
            if skipped >= part.size {
                skipped -= part.size;
                continue;
            }
            let missing = most - bytes.len();
            if missing == 0 {
                break;
            }
            let mut file = self.blobs.open_file(&part).await?;
            let (at, of) = (skipped, path.clone());
            let piece = run_blocking(move || {
                let mut piece = Vec::new();
                file.seek(SeekFrom::Start(at))
                    .and_then(|_| file.take(missing as u64).read_to_end(&mut piece))
                    .map_err(|error| problems::problem_from_io(&error, &of))?;
                Ok(piece)
            });
            bytes.extend_from_slice(&piece.await?);
            skipped = 0;
        }
        Ok((file_entry(&entry), bytes.freeze()))
    }

    pub(super) async fn list_trash(&self) -> Result<Vec<TrashedEntry>, Problem> {
        let removed = self.index.removed_entries(&self.group, TRASH_ENTRIES);
        let entries = removed.await?.into_iter().map(|entry| TrashedEntry {
            id: entry.removal.to_string(),
            path: entry.path,
            entry_type: if entry.is_dir {
                EntryType::Dir
            } else {
                EntryType::File
            },
            size: if entry.is_dir { 0 } else { entry.bytes },
            removed_at: entry.removed_at.to_string(),
        });
        Ok(entries.collect())
    }

    pub(super) async fn restore(&self, id: &str) -> Result<FileEntry, Problem> {
        let gone = || Problem::not_found("it is no longer in the trash");
        let removal: i64 = id.parse().map_err(|_| gone())?;
        let mut change = self.index.begin_share_change(&self.group).await?;
        let removed: Option<RemovedEntry> = change.removed(removal).await?;
        let removed = removed.ok_or_else(gone)?;
        let path = SharePath::parse(&removed.path)?;
        if change.entry(path.as_str()).await?.is_some() {
            return Err(problems::already_exists(&path));
        }
        let parent = path.split().map(|(parent, _)| parent);
        let missing = missing_directories(&mut change, parent).await?;
        let need = TreeUsage {
            bytes: removed.bytes,
            files: removed.files + missing.len() as u64,
        };
        self.check_quota(&change, need)?;
        make_directories(&mut change, &missing).await?;
        change.restore(removal).await?;
        let back = change.entry(path.as_str()).await?.ok_or_else(gone)?;
        change.commit().await?;
        Ok(file_entry(&back))
    }
}
