//! Files of the cache: what can be got again, and so is not synced to disk.

use std::{io, path::Path};

use hermes_config::private_file::{FileDurability, WriteOptions, create_private_dir, write_file};

/// Writes a file of the cache, two directories below the home. The home itself is not created: one that was removed
/// stays so, even while something of it still runs.
pub(crate) fn write_cache_file(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        if let Some(cache) = directory.parent() {
            create_private_dir(cache)?;
        }
        create_private_dir(directory)?;
    }
    let options = WriteOptions {
        durability: FileDurability::Unsynced,
        ..WriteOptions::default()
    };
    write_file(path, content, options)
}
