//! The content of `mcp-pins.json`. Only what is asked for is parsed: the pins of other servers stay the bytes they are.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use hermes_config::ServerName;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ChangedTool, DefinitionDiff, PinComparison, ToolDefinition};
use crate::tools::catalog::NativeTool;

/// The file as it was read, with the changes made since.
#[derive(Debug, Clone)]
pub(super) struct PinFile {
    path: PathBuf,
    servers: BTreeMap<String, Box<RawValue>>,
}

/// What stands behind a tool's name in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Pin {
    sha256: String,
    definition: Box<RawValue>,
}

/// The same, read without copies.
#[derive(Deserialize)]
struct BorrowedPin<'a> {
    #[serde(borrow)]
    sha256: Cow<'a, str>,
    #[serde(borrow)]
    definition: &'a RawValue,
}

/// What tells one version of the file from another. Every change puts a new file in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileVersion {
    length: u64,
    modified: SystemTime,
    #[cfg(unix)]
    inode: u64,
}

impl FileVersion {
    /// `None` if there is no file, or nothing is known of it.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            length: metadata.len(),
            modified: metadata.modified().ok()?,
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&metadata),
        })
    }
}

impl PinFile {
    /// A file that cannot be understood is an error: taken for empty, everything would be accepted.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let servers = match fs::read(path) {
            Ok(text) => {
                serde_json::from_slice(&text).map_err(|error| unreadable_error(path, &error))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            path: path.to_owned(),
            servers,
        })
    }

    pub(super) fn compare(
        &self,
        server: &ServerName,
        tools: &[Arc<NativeTool>],
    ) -> io::Result<PinComparison> {
        let pinned: BTreeMap<String, BorrowedPin<'_>> = self.server_pins(server)?;
        let mut comparison = PinComparison::default();
        for tool in tools {
            let Some(pin) = pinned.get(tool.name.as_str()) else {
                comparison.new.insert(tool.name.clone());
                continue;
            };
            let now = ToolDefinition::from_tool(tool);
            // The same text has the same hash. Another text may still be the same, formatted by somebody else.
            if now.text() == pin.definition.get() || now.sha256() == pin.sha256 {
                continue;
            }
            let before = serde_json::from_str(pin.definition.get())
                .map_err(|error| unreadable_error(&self.path, &error))?;
            comparison.changed_names.insert(tool.name.clone());
            comparison.changed.push(ChangedTool {
                name: tool.name.clone(),
                difference: DefinitionDiff::between(&before, &now.value()),
            });
        }
        Ok(comparison)
    }

    pub(super) fn accept<'a>(
        &mut self,
        server: &ServerName,
        tools: impl IntoIterator<Item = &'a Arc<NativeTool>>,
    ) -> io::Result<()> {
        let mut pinned: BTreeMap<String, Pin> = self.server_pins(server)?;
        for tool in tools {
            let definition = ToolDefinition::from_tool(tool);
            let sha256 = definition.sha256();
            let definition = RawValue::from_string(definition.into_text())?;
            pinned.insert(tool.name.to_string(), Pin { sha256, definition });
        }
        let text = format_lines(&pinned, "    ", "  ")?;
        self.servers
            .insert(server.to_string(), RawValue::from_string(text)?);
        Ok(())
    }

    pub(super) fn forget(&mut self, server: &ServerName) {
        self.servers.remove(server.as_str());
    }

    /// What the file is to contain.
    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        Ok(format_lines(&self.servers, "  ", "")?.into_bytes())
    }

    #[cfg(test)]
    pub(super) fn count_servers(&self) -> usize {
        self.servers.len()
    }

    /// The pins of a server, copied or borrowed.
    fn server_pins<'a, T: Deserialize<'a>>(
        &'a self,
        server: &ServerName,
    ) -> io::Result<BTreeMap<String, T>> {
        match self.servers.get(server.as_str()) {
            Some(text) => serde_json::from_str(text.get())
                .map_err(|error| unreadable_error(&self.path, &error)),
            None => Ok(BTreeMap::new()),
        }
    }
}

/// An object with a member on each line, so that a person can read the file and compare two of them.
fn format_lines<T: Serialize>(
    members: &BTreeMap<String, T>,
    indent: &str,
    end: &str,
) -> io::Result<String> {
    let mut text = String::from("{");
    for (index, (key, value)) in members.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(indent);
        text.push_str(&serde_json::to_string(key)?);
        text.push_str(": ");
        text.push_str(&serde_json::to_string(value)?);
    }
    if !members.is_empty() {
        text.push('\n');
        text.push_str(end);
    }
    text.push('}');
    Ok(text)
}

fn unreadable_error(path: &Path, error: &serde_json::Error) -> io::Error {
    let text = format!("`{}` cannot be read: {error}", path.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}
