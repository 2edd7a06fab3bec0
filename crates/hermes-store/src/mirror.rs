//! Files that show the gateway's routing to people and other programs: `sessions/sessions.json` and the directory
//! of channels. The routing itself is in the database.

use std::{borrow::Borrow, path::PathBuf};

use hermes_config::Home;
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::Value;

use crate::{SessionKey, Store, StoreError, file};

mod channels;
mod entry;

pub use channels::{Channel, ChannelDirectory};
pub use entry::{CostStatus, ModelOverride, RoutingDetails, RoutingEntry};

const README: &str = "A copy of the gateway's routing for other programs to read: which session each chat is in. \
     The sessions themselves are in state.db. To go without this file, set `gateway.write_sessions_json: false` \
     in config.yaml.";

/// Whether `sessions.json` is written along with the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionsJson {
    /// As usual.
    Written,
    /// `gateway.write_sessions_json: false`.
    Off,
}

/// The name under which a home's routing rows are kept: its sessions directory, in full and without links.
pub fn routing_scope(home: &Home) -> String {
    let directory = sessions_dir(home);
    directory
        .canonicalize()
        .or_else(|_| {
            // The directory may not be there yet, the home is.
            home.path().canonicalize().map(|home| home.join("sessions"))
        })
        .or_else(|_| std::path::absolute(&directory))
        .unwrap_or(directory)
        .to_string_lossy()
        .into_owned()
}

fn sessions_dir(home: &Home) -> PathBuf {
    home.path().join("sessions")
}

/// Where the copy of the routing is.
pub fn sessions_file(home: &Home) -> PathBuf {
    sessions_dir(home).join("sessions.json")
}

/// The routing of a home: from the database, or from the file if that knows nothing.
pub async fn load_routing(home: &Home, store: &Store) -> Result<Vec<RoutingEntry>, StoreError> {
    let rows = store.routing(&routing_scope(home)).await?;
    if rows.is_empty() {
        return read_sessions_file(home);
    }
    Ok(rows
        .iter()
        .filter_map(|(key, value)| RoutingEntry::from_json(key, value))
        .collect())
}

/// Puts these entries in the place of all others, in the database and in the file.
pub async fn save_routing(
    home: &Home,
    store: &Store,
    entries: &[impl Borrow<RoutingEntry>],
    copy: SessionsJson,
) -> Result<(), StoreError> {
    let rows: Vec<(SessionKey, Value)> = entries.iter().map(routing_row).collect();
    store.replace_routing(&routing_scope(home), &rows).await?;
    if copy == SessionsJson::Written {
        write_sessions_file(home, entries)?;
    }
    Ok(())
}

/// Saves entries that are new or changed and removes others, in the database alone. The rest stays as it is.
pub async fn save_routing_changes(
    home: &Home,
    store: &Store,
    changed: &[impl Borrow<RoutingEntry>],
    removed: &[SessionKey],
) -> Result<(), StoreError> {
    let rows: Vec<(SessionKey, Value)> = changed.iter().map(routing_row).collect();
    store
        .update_routing(&routing_scope(home), &rows, removed)
        .await
}

fn routing_row(entry: &impl Borrow<RoutingEntry>) -> (SessionKey, Value) {
    let entry = entry.borrow();
    (entry.session_key.clone(), entry.to_json())
}

/// What `sessions.json` says. A missing file means no entries; invalid entries are skipped.
pub fn read_sessions_file(home: &Home) -> Result<Vec<RoutingEntry>, StoreError> {
    Ok(read_sessions_json(home)?
        .iter()
        .filter_map(|(key, value)| RoutingEntry::from_json(key, value))
        .collect())
}

/// The same as it stands in the file, in its order.
pub fn read_sessions_json(home: &Home) -> Result<Vec<(SessionKey, Value)>, StoreError> {
    let path = sessions_file(home);
    let text = file::read_optional(&path).map_err(|source| StoreError::Io {
        path: path.clone(),
        source,
    })?;
    let Some(Value::Object(map)) = text.as_deref().and_then(crate::json::parse_json) else {
        if text.is_some() {
            tracing::warn!(path = %path.display(), "ignored a file that is not a JSON object");
        }
        return Ok(Vec::new());
    };
    Ok(map
        .into_iter()
        .filter(|(key, _)| !key.starts_with('_'))
        .map(|(key, value)| (SessionKey::new(key), value))
        .collect())
}

/// Writes all entries to the file.
pub fn write_sessions_file(
    home: &Home,
    entries: &[impl Borrow<RoutingEntry>],
) -> Result<(), StoreError> {
    let path = sessions_file(home);
    let written = serde_json::to_vec_pretty(&SessionsFile(entries)).map_err(Into::into);
    written
        .and_then(|mut text| {
            text.push(b'\n');
            file::replace_copy(&path, &text)
        })
        .map_err(|source| StoreError::Io { path, source })
}

/// The file, written entry by entry: there may be thousands.
struct SessionsFile<'a, E>(&'a [E]);

impl<E: Borrow<RoutingEntry>> Serialize for SessionsFile<'_, E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len() + 1))?;
        map.serialize_entry("_README", README)?;
        for entry in self.0 {
            let entry = entry.borrow();
            map.serialize_entry(entry.session_key.as_str(), &entry.to_json())?;
        }
        map.end()
    }
}
