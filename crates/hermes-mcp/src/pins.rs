//! What a server's tools were when they were last accepted: a hash and the definition of each, in `mcp-pins.json`.
//!
//! A server that turns another face to the model once people trust it is noticed here. What follows from it is
//! `pin_tools`: a warning with the difference, or the tool is withheld until somebody approves it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use hermes_config::{Home, ServerName, replace_file};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{catalog::NativeTool, names::ToolName};

mod definition;
mod difference;

pub use definition::Definition;
pub use difference::Difference;

/// The pins of one home.
#[derive(Debug, Clone)]
pub struct Pins {
    path: PathBuf,
    /// Held while the file is changed.
    directory: PathBuf,
}

/// What stands behind a tool's name in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pin {
    sha256: String,
    definition: Value,
}

type Servers = BTreeMap<String, BTreeMap<String, Pin>>;

/// How a tool compares with its pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PinState {
    /// It was never seen.
    New,
    /// It is what was accepted.
    Pinned,
    /// It is something else.
    Changed,
}

/// A tool that is not what it was.
#[derive(Debug, Clone)]
pub struct ChangedTool {
    /// Its name.
    pub name: ToolName,
    /// What is different.
    pub difference: Difference,
}

/// A listing beside the pins.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// Tools that are not what they were.
    pub changed: Vec<ChangedTool>,
    /// Tools that were never seen.
    pub new: Vec<ToolName>,
}

impl Comparison {
    /// How one of the listed tools compares.
    pub fn state(&self, name: &ToolName) -> PinState {
        if self.changed.iter().any(|tool| tool.name == *name) {
            PinState::Changed
        } else if self.new.contains(name) {
            PinState::New
        } else {
            PinState::Pinned
        }
    }
}

impl Pins {
    /// Those of a home.
    pub fn of(home: &Home) -> Self {
        Self {
            path: home.pins_file(),
            directory: home.path().to_owned(),
        }
    }

    /// Compares a listing with what was accepted.
    pub fn compare(
        &self,
        server: &ServerName,
        tools: &[Arc<NativeTool>],
    ) -> io::Result<Comparison> {
        let pinned = read(&self.path)?.remove(server.as_str());
        let pinned = pinned.unwrap_or_default();
        let mut comparison = Comparison::default();
        for tool in tools {
            let Some(pin) = pinned.get(tool.name.as_str()) else {
                comparison.new.push(tool.name.clone());
                continue;
            };
            let now = Definition::of(tool);
            if now.sha256() != pin.sha256 {
                comparison.changed.push(ChangedTool {
                    name: tool.name.clone(),
                    difference: Difference::between(&pin.definition, now.value()),
                });
            }
        }
        Ok(comparison)
    }

    /// Accepts these tools as they are; others of the server stay as they were.
    pub fn accept<'a>(
        &self,
        server: &ServerName,
        tools: impl IntoIterator<Item = &'a Arc<NativeTool>>,
    ) -> io::Result<()> {
        self.change(|servers| {
            let pinned = servers.entry(server.to_string()).or_default();
            for tool in tools {
                let definition = Definition::of(tool);
                let pin = Pin {
                    sha256: definition.sha256().to_owned(),
                    definition: definition.into_value(),
                };
                pinned.insert(tool.name.to_string(), pin);
            }
        })
    }

    /// Forgets a server, so that it is seen for the first time again.
    pub fn forget(&self, server: &ServerName) -> io::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        self.change(|servers| {
            servers.remove(server.as_str());
        })
    }

    /// Changes the file under a lock that other processes respect.
    fn change(&self, change: impl FnOnce(&mut Servers)) -> io::Result<()> {
        let directory = fs::File::open(&self.directory)?;
        directory.lock()?;
        let mut servers = read(&self.path)?;
        change(&mut servers);
        replace_file(&self.path, &serde_json::to_vec_pretty(&servers)?)
    }
}

/// A file that can not be understood is an error: taken for empty, everything would be accepted.
fn read(path: &Path) -> io::Result<Servers> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Servers::new()),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&text).map_err(|error| {
        let text = format!("`{}` can not be read: {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

#[cfg(test)]
mod tests;
