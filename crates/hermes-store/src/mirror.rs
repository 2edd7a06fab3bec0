//! Files that show the gateway's routing to people and other programs: `sessions/sessions.json` and the directory
//! of channels. The routing itself is in the database; each save writes both.

use std::path::PathBuf;

use hermes_config::Home;
use serde_json::{Map, Value};

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
    entries: &[RoutingEntry],
    copy: SessionsJson,
) -> Result<(), StoreError> {
    let rows: Vec<(SessionKey, Value)> = entries
        .iter()
        .map(|entry| (entry.session_key.clone(), entry.to_json()))
        .collect();
    store.replace_routing(&routing_scope(home), &rows).await?;
    if copy == SessionsJson::Written {
        write_sessions_file(home, &rows)?;
    }
    Ok(())
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

fn write_sessions_file(home: &Home, rows: &[(SessionKey, Value)]) -> Result<(), StoreError> {
    let path = sessions_file(home);
    let mut map = Map::new();
    map.insert("_README".into(), README.into());
    for (key, entry) in rows {
        map.insert(key.to_string(), entry.clone());
    }
    let text = format!("{:#}\n", Value::Object(map));
    file::replace_file(&path, text.as_bytes()).map_err(|source| StoreError::Io { path, source })
}
