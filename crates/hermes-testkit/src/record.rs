//! The file in which a server keeps what it received, and how tests read it back.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use serde_json::Value;

/// Appends messages to a file, each in one write, so that several processes can share it.
#[derive(Debug)]
pub(crate) struct MessageRecorder(File);

impl MessageRecorder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(
            OpenOptions::new().create(true).append(true).open(path)?,
        ))
    }

    pub(crate) fn write(&self, message: &Value) {
        let line = format!("{message}\n");
        // A test that lost its directory has ended; there is nobody to tell.
        let _ = (&self.0).write_all(line.as_bytes());
    }
}

/// The messages a server recorded, oldest first; none if it was never started.
pub fn recorded_messages(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        // The last line may still be on its way.
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The recorded requests and notifications with this method.
pub fn recorded(path: &Path, method: &str) -> Vec<Value> {
    recorded_messages(path)
        .into_iter()
        .filter(|message| message["method"] == method)
        .collect()
}
