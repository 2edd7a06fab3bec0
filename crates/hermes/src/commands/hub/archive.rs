//! The form of a backup: a `tar.zst` whose last entry lists every file before it with its hash.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use crate::failure::Failure;

/// The name of the list.
const MANIFEST: &str = "manifest.json";
/// A fair trade of time against size.
const LEVEL: i32 = 3;

/// What is in an archive.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Of this form.
    form: u32,
    /// The version that wrote it.
    version: String,
    /// Hashes by path.
    files: BTreeMap<String, String>,
}

/// Writes an archive.
pub(super) struct Archive<W: Write> {
    tar: tar::Builder<zstd::Encoder<'static, W>>,
    manifest: Manifest,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(to: W) -> io::Result<Self> {
        let mut tar = tar::Builder::new(zstd::Encoder::new(to, LEVEL)?);
        tar.follow_symlinks(false);
        Ok(Self {
            tar,
            manifest: Manifest {
                form: 1,
                version: env!("CARGO_PKG_VERSION").into(),
                files: BTreeMap::new(),
            },
        })
    }

    /// Adds a directory without what is in it.
    pub(super) fn directory(&mut self, name: &str, from: &Path) -> io::Result<()> {
        self.tar.append_dir(name, from)
    }

    /// Adds a link as a link.
    pub(super) fn link(&mut self, name: &str, from: &Path) -> io::Result<()> {
        self.tar.append_path_with_name(from, name)
    }

    /// Adds a file under a name. What it grows by meanwhile is left out.
    pub(super) fn file(&mut self, name: &str, from: &Path) -> io::Result<()> {
        let file = File::open(from)?;
        let metadata = file.metadata()?;
        let mut header = Header::new_gnu();
        header.set_metadata(&metadata);
        let mut content = Hashed {
            left: metadata.len(),
            from: file,
            hash: Sha256::new(),
        };
        self.tar.append_data(&mut header, name, &mut content)?;
        self.manifest
            .files
            .insert(name.to_owned(), hex(content.hash));
        Ok(())
    }

    /// Adds the list and ends the archive. Tells how many files it has.
    pub(super) fn finish(mut self) -> io::Result<usize> {
        let manifest = serde_json::to_vec_pretty(&self.manifest)?;
        let mut header = Header::new_gnu();
        header.set_size(manifest.len() as u64);
        header.set_mode(0o600);
        header.set_entry_type(EntryType::Regular);
        self.tar
            .append_data(&mut header, MANIFEST, manifest.as_slice())?;
        self.tar.into_inner()?.finish()?.flush()?;
        Ok(self.manifest.files.len())
    }
}

/// Exactly so many bytes of a file: zeros take the place of what it loses meanwhile.
struct Hashed {
    from: File,
    left: u64,
    hash: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let buffer = &mut buffer[..most];
        let mut count = self.from.read(buffer)?;
        if count == 0 && most > 0 {
            buffer.fill(0);
            count = most;
        }
        self.hash.update(&buffer[..count]);
        self.left -= count as u64;
        Ok(count)
    }
}

/// Unpacks an archive into a directory and makes sure that every file is as it was written.
pub(super) fn unpack(from: impl Read, directory: &Path) -> Result<usize, Failure> {
    let damaged = |error: io::Error| Failure::failed(format!("the backup is damaged: {error}"));
    let mut archive = tar::Archive::new(zstd::Decoder::new(from).map_err(damaged)?);
    archive.set_preserve_permissions(true);
    let mut found = BTreeMap::new();
    let mut manifest: Option<Manifest> = None;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.into_owned();
        let name = plain_name(&path)?;
        if name == MANIFEST {
            manifest =
                Some(serde_json::from_reader(&mut entry).map_err(|error| damaged(error.into()))?);
            continue;
        }
        let is_file = entry.header().entry_type() == EntryType::Regular;
        entry.unpack_in(directory).map_err(damaged)?;
        if is_file {
            let hash = hash_of(&directory.join(&path)).map_err(damaged)?;
            found.insert(name, hash);
        }
    }
    let manifest =
        manifest.ok_or_else(|| Failure::failed("the backup is damaged: its end is missing"))?;
    if manifest.form != 1 {
        return Err(Failure::failed(format!(
            "the backup was written by a newer version ({})",
            manifest.version
        )));
    }
    if let Some(name) = differs(&manifest.files, &found) {
        return Err(Failure::failed(format!(
            "the backup is damaged: `{name}` is not as it was written"
        )));
    }
    Ok(found.len())
}

/// The first file that is missing, new or another.
fn differs<'a>(
    wanted: &'a BTreeMap<String, String>,
    found: &'a BTreeMap<String, String>,
) -> Option<&'a str> {
    let missing = wanted
        .iter()
        .find(|(name, hash)| found.get(*name) != Some(hash));
    let unknown = || found.iter().find(|(name, _)| !wanted.contains_key(*name));
    missing.or_else(unknown).map(|(name, _)| name.as_str())
}

/// A name that leads nowhere else.
fn plain_name(path: &Path) -> Result<String, Failure> {
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    match path.to_str().filter(|_| is_plain) {
        Some(name) => Ok(name.to_owned()),
        None => Err(Failure::failed(
            "the backup is damaged: a name in it leads out of it",
        )),
    }
}

fn hash_of(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(hash)),
            count => hash.update(&buffer[..count]),
        }
    }
}

fn hex(hash: Sha256) -> String {
    use std::fmt::Write as _;
    hash.finalize()
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// What is in a directory, by name. One that is not there is empty.
pub(super) fn entries(directory: &Path) -> io::Result<Vec<(String, PathBuf, fs::FileType)>> {
    let listed = match fs::read_dir(directory) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    for entry in listed {
        let entry = entry?;
        // A name that is no text can not be listed in the manifest; homes have none by themselves.
        let Ok(name) = entry.file_name().into_string() else {
            tracing::warn!(path = %entry.path().display(), "left out of the backup: its name is no text");
            continue;
        };
        entries.push((name, entry.path(), entry.file_type()?));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(directory: &Path) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes).unwrap();
        archive.directory("a", directory).unwrap();
        archive.file("a/one", &directory.join("one")).unwrap();
        assert_eq!(archive.finish().unwrap(), 1);
        bytes
    }

    #[test]
    fn what_is_packed_comes_out_again() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("one"), "text".repeat(1000)).unwrap();
        let bytes = packed(directory.path());
        let target = tempfile::tempdir().unwrap();
        assert_eq!(unpack(bytes.as_slice(), target.path()).unwrap(), 1);
        let text = fs::read_to_string(target.path().join("a/one")).unwrap();
        assert_eq!(text, "text".repeat(1000));
    }

    #[test]
    fn a_changed_or_shortened_archive_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("one"), "text").unwrap();
        let bytes = packed(directory.path());
        let target = tempfile::tempdir().unwrap();
        assert!(unpack(&bytes[..bytes.len() - 8], target.path()).is_err());

        // The same names, another content than the list says.
        let mut plain = zstd::decode_all(bytes.as_slice()).unwrap();
        let at = plain.windows(4).position(|four| four == b"text").unwrap();
        plain[at] = b'T';
        let changed = zstd::encode_all(plain.as_slice(), 1).unwrap();
        let target = tempfile::tempdir().unwrap();
        let failure = unpack(changed.as_slice(), target.path()).unwrap_err();
        assert!(failure.message.contains("a/one"), "{failure:?}");
    }
}
