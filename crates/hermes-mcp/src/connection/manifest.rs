//! What is remembered of a server between runs: its era and its lists, in `<home>/cache/mcp/<fingerprint>.json`.
//!
//! It is a cache: no secrets, no fsync, and a file that cannot be read counts as absent.

use std::{
    hash::{DefaultHasher, Hasher},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use hermes_config::{Fingerprint, Home};
use rmcp::model::{
    Implementation, Prompt, ProtocolVersion, Resource, ResourceTemplate, ServerCapabilities,
    ServerPeerInfo, Tool,
};
use serde::{Deserialize, Serialize};

use crate::{
    cache_file::write_cache_file,
    connection::era::Era,
    tools::catalog::{Catalog, NativeTool},
};

/// One server's remembered state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub era: Era,
    pub protocol_version: ProtocolVersion,
    /// Its own name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Implementation>,
    pub capabilities: ServerCapabilities,
    pub tools: Vec<Tool>,
    #[serde(default)]
    pub resources: Vec<Resource>,
    #[serde(default)]
    pub templates: Vec<ResourceTemplate>,
    #[serde(default)]
    pub prompts: Vec<Prompt>,
    pub saved_at: u64,
}

impl Manifest {
    /// Describes a session and its lists.
    pub(crate) fn new(era: Era, info: &ServerPeerInfo, catalog: &Catalog) -> Self {
        Self {
            era,
            protocol_version: info.protocol_version.clone(),
            server_info: info.server_info.clone(),
            capabilities: catalog.capabilities.clone(),
            tools: catalog
                .tools
                .iter()
                .map(|tool| tool.definition.clone())
                .collect(),
            resources: catalog.resources.clone(),
            templates: catalog.templates.clone(),
            prompts: catalog.prompts.clone(),
            saved_at: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |time| time.as_secs()),
        }
    }

    /// The lists as a catalog.
    pub(crate) fn to_catalog(&self) -> Catalog {
        Catalog {
            tools: self
                .tools
                .iter()
                .cloned()
                .map(|tool| Arc::new(NativeTool::new(tool)))
                .collect(),
            resources: self.resources.clone(),
            templates: self.templates.clone(),
            prompts: self.prompts.clone(),
            capabilities: self.capabilities.clone(),
            is_complete: true,
            ..Catalog::default()
        }
    }

    /// Whether the file says the same already, whenever it was written.
    pub(crate) fn matches_stored(&mut self, remembered: Option<ManifestSummary>) -> bool {
        let Some(remembered) = remembered else {
            return false;
        };
        let now = std::mem::replace(&mut self.saved_at, remembered.saved_at);
        let text = serde_json::to_vec(self);
        self.saved_at = now;
        text.is_ok_and(|text| digest(&text) == remembered.digest)
    }
}

/// As much of a manifest as it takes to connect, and to know later whether it has to be written again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManifestSummary {
    pub(crate) era: Era,
    saved_at: u64,
    digest: u64,
}

impl ManifestSummary {
    /// Reads a manifest without its lists; absent and unreadable are the same.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        #[derive(Deserialize)]
        struct Head {
            era: Era,
            saved_at: u64,
        }
        let text = std::fs::read(path).ok()?;
        let Head { era, saved_at } = serde_json::from_slice(&text).ok()?;
        Some(Self {
            era,
            saved_at,
            digest: digest(&text),
        })
    }
}

/// Tells two texts apart, within one run of the program.
fn digest(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}

/// Where a server's manifest is kept.
pub fn manifest_path(home: &Home, fingerprint: &Fingerprint) -> PathBuf {
    home.cache_dir()
        .join("mcp")
        .join(format!("{fingerprint}.json"))
}

/// Reads a manifest; absent and unreadable are the same.
pub fn read_manifest(path: &Path) -> Option<Manifest> {
    let text = std::fs::read(path).ok()?;
    serde_json::from_slice(&text)
        .inspect_err(|error| tracing::debug!(%error, "ignored an unreadable manifest"))
        .ok()
}

pub(crate) fn write_manifest(path: &Path, manifest: &Manifest) -> io::Result<ManifestSummary> {
    let text = serde_json::to_vec(manifest)?;
    write_cache_file(path, &text)?;
    Ok(ManifestSummary {
        era: manifest.era,
        saved_at: manifest.saved_at,
        digest: digest(&text),
    })
}
