//! The list of a home's files at a checkpoint.

use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt as _,
    path::{Component, PathBuf},
};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use serde::{Deserialize, Serialize};

/// Names may be any bytes; these are escaped, and so is everything that is not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%').add(b'"').add(b'\\');
const MAX_MANIFEST_BYTES: usize = 512 << 20;
const COMPRESSION_LEVEL: i32 = 1;
/// Files without holes: programs that do not know holes read these.
const FORM: u32 = 1;
const FORM_WITH_HOLES: u32 = 2;

/// Epochs of the chunks that object storage is known to have, by name.
pub(super) type KnownChunks = HashMap<String, u64>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HomeManifest {
    form: u32,
    pub(super) entries: Vec<ManifestEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestEntry {
    /// From the home, escaped.
    path: String,
    #[serde(flatten)]
    pub(super) content: ManifestContent,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum ManifestContent {
    Dir {
        mode: u32,
    },
    Link {
        /// Escaped.
        target: String,
    },
    File {
        mode: u32,
        modified_ns: i64,
        chunks: Vec<FilePart>,
    },
}

/// A part of a file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum FilePart {
    Chunk(ChunkRef),
    Hole {
        /// Its bytes.
        hole: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChunkRef {
    pub(super) epoch: u64,
    pub(super) name: String,
    pub(super) size: u64,
}

impl ManifestEntry {
    pub(super) fn new(path: &[u8], content: ManifestContent) -> Self {
        Self {
            path: escape(path),
            content,
        }
    }

    /// Its path below the home; `None` if it would lead out.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let path = PathBuf::from(unescape(&self.path));
        let mut parts = path.components();
        let is_plain = parts.all(|part| matches!(part, Component::Normal(_)));
        (is_plain && !path.as_os_str().is_empty()).then_some(path)
    }
}

pub(super) fn escape(bytes: &[u8]) -> String {
    percent_encode(bytes, ESCAPED).to_string()
}

pub(super) fn unescape(text: &str) -> OsString {
    OsString::from_vec(percent_decode_str(text).collect())
}

impl HomeManifest {
    pub(super) fn new(mut entries: Vec<ManifestEntry>) -> Self {
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let has_hole = |entry: &ManifestEntry| {
            let is_hole = |part: &FilePart| matches!(part, FilePart::Hole { .. });
            matches!(&entry.content, ManifestContent::File { chunks, .. } if chunks.iter().any(is_hole))
        };
        let form = if entries.iter().any(has_hole) {
            FORM_WITH_HOLES
        } else {
            FORM
        };
        Self { form, entries }
    }

    pub(super) fn pack(&self) -> io::Result<Vec<u8>> {
        zstd::bulk::compress(&serde_json::to_vec(self)?, COMPRESSION_LEVEL)
    }

    pub(super) fn unpack(packed: &[u8]) -> io::Result<Self> {
        let mut text = zstd::Decoder::new(packed)?;
        let mut plain = Vec::new();
        let limit = MAX_MANIFEST_BYTES as u64;
        io::copy(&mut io::Read::take(&mut text, limit), &mut plain)?;
        let manifest: Self = serde_json::from_slice(&plain)?;
        if manifest.form > FORM_WITH_HOLES {
            return Err(io::Error::other(
                "a newer version of this program has written it",
            ));
        }
        Ok(manifest)
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = &ChunkRef> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.content {
                ManifestContent::File { chunks, .. } => Some(chunks),
                _ => None,
            })
            .flatten()
            .filter_map(|part| match part {
                FilePart::Chunk(chunk) => Some(chunk),
                FilePart::Hole { .. } => None,
            })
    }

    pub(super) fn known_chunks(&self) -> KnownChunks {
        let chunks = self.chunks();
        chunks
            .map(|chunk| (chunk.name.clone(), chunk.epoch))
            .collect()
    }

    /// Without holes.
    pub(super) fn bytes(&self) -> u64 {
        self.chunks().map(|chunk| chunk.size).sum()
    }
}

/// A chunk as it is encrypted.
pub(super) fn compress_chunk(content: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(content, COMPRESSION_LEVEL)
}

pub(super) fn decompress_chunk(packed: &[u8], size: usize) -> io::Result<Vec<u8>> {
    zstd::bulk::decompress(packed, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8]) -> ManifestEntry {
        ManifestEntry::new(path, ManifestContent::Dir { mode: 0o700 })
    }

    #[test]
    fn holes_come_back_and_only_manifests_with_holes_have_the_newer_form() {
        let file = |chunks: Vec<FilePart>| {
            let content = ManifestContent::File {
                mode: 0o600,
                modified_ns: 1,
                chunks,
            };
            HomeManifest::new(vec![ManifestEntry::new(b"a", content)])
        };
        let chunk = FilePart::Chunk(ChunkRef {
            epoch: 3,
            name: "n".into(),
            size: 5,
        });
        assert_eq!(file(vec![chunk.clone()]).form, FORM);
        let sparse = file(vec![FilePart::Hole { hole: 64 << 30 }, chunk]);
        assert_eq!(sparse.form, FORM_WITH_HOLES);
        assert_eq!(sparse.bytes(), 5);
        let packed = sparse.pack().unwrap();
        assert_eq!(HomeManifest::unpack(&packed).unwrap(), sparse);
    }

    #[test]
    fn any_name_comes_back_and_none_leads_out() {
        let name = b"a/\xff \"%41\"\n\xc3\xa4";
        let packed = HomeManifest::new(vec![entry(name)]).pack().unwrap();
        let manifest = HomeManifest::unpack(&packed).unwrap();
        let path = manifest.entries[0].path().unwrap();
        assert_eq!(
            std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()),
            name
        );
        for name in [&b"../a"[..], b"/etc", b"a/../../b", b""] {
            assert_eq!(entry(name).path(), None);
        }
    }
}
