//! What a server's tools were when they were last accepted: a hash and the definition of each, in `mcp-pins.json`.
//!
//! This detects a server that changes its tools after people have come to trust it. `pin_tools` decides what follows: a
//! warning with the difference, or the tool is withheld until somebody approves it.

use std::{collections::HashSet, fs, io, path::PathBuf, sync::Arc};

use hermes_config::{Home, ServerName, private_file::write_private};
use serde::Serialize;

use crate::tools::{catalog::NativeTool, names::ToolName};

mod definition;
mod file;
mod queue;

pub use definition::{DefinitionDiff, ToolDefinition};
use file::PinFile;
pub(crate) use queue::PinQueue;

#[derive(Debug, Clone)]
pub struct Pins {
    path: PathBuf,
    /// Held while the file is changed.
    directory: PathBuf,
}

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

#[derive(Debug, Clone)]
pub struct ChangedTool {
    pub name: ToolName,
    pub difference: DefinitionDiff,
}

/// A listing beside the pins.
#[derive(Debug, Clone, Default)]
pub struct PinComparison {
    /// Tools that are not what they were, in the order of the listing.
    pub changed: Vec<ChangedTool>,
    /// Tools that were never seen.
    pub new: HashSet<ToolName>,
    changed_names: HashSet<ToolName>,
}

impl PinComparison {
    /// How one of the listed tools compares.
    pub fn state(&self, name: &ToolName) -> PinState {
        if self.changed_names.contains(name) {
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
    pub fn for_home(home: &Home) -> Self {
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
    ) -> io::Result<PinComparison> {
        PinFile::read(&self.path)?.compare(server, tools)
    }

    /// Accepts these tools as they are; others of the server stay as they were.
    pub fn accept<'a>(
        &self,
        server: &ServerName,
        tools: impl IntoIterator<Item = &'a Arc<NativeTool>>,
    ) -> io::Result<()> {
        self.update(|file| file.accept(server, tools))
    }

    /// Forgets a server, so that it is seen for the first time again.
    pub fn forget(&self, server: &ServerName) -> io::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        self.update(|file| {
            file.forget(server);
            Ok(())
        })
    }

    /// Changes the file under a lock that other processes respect.
    fn update<T>(&self, change: impl FnOnce(&mut PinFile) -> io::Result<T>) -> io::Result<T> {
        let directory = fs::File::open(&self.directory)?;
        directory.lock()?;
        let mut file = PinFile::read(&self.path)?;
        let changed = change(&mut file)?;
        write_private(&self.path, &file.to_bytes()?)?;
        Ok(changed)
    }
}

/// Advice about one tool, for the person who may accept it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedToolAdvice {
    pub server: ServerName,
    pub tool: ToolName,
    /// Whose agent it is, if a Hub hosts it.
    pub tenant: Option<String>,
}

impl std::fmt::Display for ChangedToolAdvice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            server,
            tool,
            tenant,
        } = self;
        match tenant {
            Some(tenant) => write!(
                f,
                "`hermes tenant mcp {tenant} tools {server}` of its operator shows it, `hermes tenant mcp {tenant} accept \
                 {server} {tool}` accepts it"
            ),
            None => write!(
                f,
                "`hermes mcp tools {server} --diff` shows the difference, `hermes mcp tools {server} --approve {tool}` \
                 accepts it"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
