//! Blobs on the local disk, so that a search does not fetch them each time. What is in there can always be fetched again.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use hermes_config::{random::random_number, sync::Mutex};

use crate::storage::{data_dir::ensure_private_dir, state::BlobRef};

/// Prefix of files that are being written.
const TEMP_PREFIX: &str = "tmp-";

#[derive(Debug)]
pub(super) struct BlobCache {
    directory: PathBuf,
    max_bytes: u64,
    content: Mutex<CacheContent>,
}

#[derive(Debug, Default)]
struct CacheContent {
    /// Size, and when it was last used, by the count of uses.
    blobs: HashMap<String, (u64, u64)>,
    bytes: u64,
    uses: u64,
}

impl BlobCache {
    /// Opens a directory and takes over what an earlier process left there. Blocking.
    pub(super) fn open(directory: &Path, max_bytes: u64) -> io::Result<Self> {
        ensure_private_dir(directory)?;
        let mut content = CacheContent::default();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(TEMP_PREFIX) {
                let _ = fs::remove_file(entry.path());
            } else if let Ok(metadata) = entry.metadata() {
                content.bytes += metadata.len();
                content.blobs.insert(name, (metadata.len(), 0));
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            max_bytes,
            content: Mutex::new(content),
        })
    }

    /// The blob, if it is there whole. Blocking.
    pub(super) fn get(&self, blob: &BlobRef) -> Option<File> {
        {
            let mut content = self.content.lock();
            content.uses += 1;
            let now = content.uses;
            content.blobs.get_mut(&blob.name)?.1 = now;
        }
        let file = File::open(self.directory.join(&blob.name)).ok()?;
        let is_whole = file
            .metadata()
            .is_ok_and(|metadata| metadata.len() == blob.size);
        is_whole.then_some(file)
    }

    /// Keeps a blob and opens it. Others may have to go. Blocking.
    pub(super) fn insert(&self, blob: &BlobRef, bytes: &[u8]) -> io::Result<File> {
        let draft = self
            .directory
            .join(format!("{TEMP_PREFIX}{:x}", random_number()));
        let path = self.directory.join(&blob.name);
        let written = File::create_new(&draft)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| File::open(&draft))
            .and_then(|file| fs::rename(&draft, &path).map(|()| file));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        let file = written?;
        for name in self.make_room(blob) {
            // Whoever has it open can go on reading.
            let _ = fs::remove_file(self.directory.join(name));
        }
        Ok(file)
    }

    /// Counts a new blob; returns those that have to go, the least recently used first.
    fn make_room(&self, blob: &BlobRef) -> Vec<String> {
        let mut content = self.content.lock();
        content.uses += 1;
        let now = content.uses;
        let before = content.blobs.insert(blob.name.clone(), (blob.size, now));
        content.bytes = content.bytes + blob.size - before.map_or(0, |(size, _)| size);
        if content.bytes <= self.max_bytes {
            return Vec::new();
        }
        let mut oldest: Vec<(u64, String)> = content
            .blobs
            .iter()
            .filter(|(name, _)| **name != blob.name)
            .map(|(name, (_, used))| (*used, name.clone()))
            .collect();
        oldest.sort_unstable();
        let mut gone = Vec::new();
        for (_, name) in oldest {
            // A bit more than needed, so that not every blob after this one sorts them all.
            if content.bytes <= self.max_bytes / 10 * 9 {
                break;
            }
            if let Some((size, _)) = content.blobs.remove(&name) {
                content.bytes -= size;
                gone.push(name);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn blob(name: &str, size: u64) -> BlobRef {
        BlobRef {
            name: name.into(),
            size,
        }
    }

    #[test]
    fn the_least_recently_used_blobs_make_room_and_a_cut_one_is_not_given_out() {
        let directory = tempfile::tempdir().unwrap();
        let cache = BlobCache::open(directory.path(), 100).unwrap();
        for name in ["a", "b", "c"] {
            cache.insert(&blob(name, 30), &[7; 30]).unwrap();
        }
        assert!(cache.get(&blob("a", 30)).is_some());
        cache.insert(&blob("d", 30), &[7; 30]).unwrap();
        let found: Vec<bool> = ["a", "b", "c", "d"]
            .iter()
            .map(|name| cache.get(&blob(name, 30)).is_some())
            .collect();
        assert_eq!(found, [true, false, true, true]);

        fs::write(directory.path().join("a"), "cut").unwrap();
        assert!(cache.get(&blob("a", 30)).is_none());

        fs::write(directory.path().join("tmp-1"), "left over").unwrap();
        let cache = BlobCache::open(directory.path(), 100).unwrap();
        assert!(!directory.path().join("tmp-1").exists());
        let mut content = Vec::new();
        let mut file = cache.get(&blob("c", 30)).unwrap();
        file.read_to_end(&mut content).unwrap();
        assert_eq!(content, [7; 30]);
    }
}
