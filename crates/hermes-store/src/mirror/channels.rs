//! The channels messages can be sent to: `channel_directory.json`, which the gateway writes, with the names the
//! user gave in `channel_aliases.json`.

use std::path::PathBuf;

use hermes_config::Home;
use serde_json::{Map, Value, json};

use crate::{StoreError, clock, file, json::parse_json};

const DIRECTORY_FILE: &str = "channel_directory.json";

/// One channel, chat or topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// `chat_id` or `chat_id:thread_id`.
    pub id: Option<String>,
    /// Its name for people.
    pub name: String,
    /// `channel`, `dm`, `group`, `forum`, …
    pub kind: String,
    /// The server it is on.
    pub guild: Option<String>,
    /// The topic.
    pub thread_id: Option<String>,
}

/// The channels of each platform, in file order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelDirectory {
    /// When it was written, as written.
    pub updated_at: Option<String>,
    pub platforms: Vec<(String, Vec<Channel>)>,
}

impl ChannelDirectory {
    /// Reads the directory and applies the user's names. Nothing if there is no directory, or it is not an object with
    /// something in it.
    pub fn load(home: &Home) -> Result<Option<Self>, StoreError> {
        let Some(mut directory) = Self::load_listed(home)? else {
            return Ok(None);
        };
        directory.apply_aliases(home)?;
        Ok(Some(directory))
    }

    /// The same for looking a name up: the user's names count without a directory, too.
    pub fn load_for_lookup(home: &Home) -> Result<Self, StoreError> {
        let mut directory = Self::load_listed(home)?.unwrap_or_default();
        directory.apply_aliases(home)?;
        Ok(directory)
    }

    /// Reads the directory without the user's names.
    pub fn load_listed(home: &Home) -> Result<Option<Self>, StoreError> {
        let Some(Value::Object(document)) = read_json(home, DIRECTORY_FILE)? else {
            return Ok(None);
        };
        if document.is_empty() {
            return Ok(None);
        }
        let mut directory = Self {
            updated_at: text(document.get("updated_at")),
            platforms: Vec::new(),
        };
        if let Some(Value::Object(platforms)) = document.get("platforms") {
            for (platform, channels) in platforms {
                let channels = channels.as_array().map(Vec::as_slice).unwrap_or_default();
                let channels = channels.iter().filter_map(parse_channel).collect();
                directory.platforms.push((platform.clone(), channels));
            }
        }
        Ok(Some(directory))
    }

    /// Replaces the directory of the home, with the present time.
    pub fn save(&mut self, home: &Home) -> Result<(), StoreError> {
        self.updated_at = Some(clock::utc_iso(clock::epoch_seconds()));
        let platforms: Map<String, Value> = self
            .platforms
            .iter()
            .map(|(platform, channels)| {
                let channels = channels.iter().map(channel_json).collect();
                (platform.clone(), Value::Array(channels))
            })
            .collect();
        let document = json!({"updated_at": self.updated_at, "platforms": platforms});
        let path = home.path().join(DIRECTORY_FILE);
        let text = format!("{document:#}\n");
        file::replace_file(&path, text.as_bytes()).map_err(|source| StoreError::Io { path, source })
    }

    fn apply_aliases(&mut self, home: &Home) -> Result<(), StoreError> {
        let Some(Value::Object(aliases)) = read_json(home, "channel_aliases.json")? else {
            return Ok(());
        };
        for (platform, names) in &aliases {
            for (id, name) in names.as_object().into_iter().flatten() {
                if let Some(name) = name.as_str().filter(|name| !name.trim().is_empty()) {
                    self.rename(platform, id, name.trim());
                }
            }
        }
        Ok(())
    }

    pub fn platform(&self, name: &str) -> &[Channel] {
        self.platforms
            .iter()
            .find(|(platform, _)| platform.eq_ignore_ascii_case(name))
            .map_or(&[], |(_, channels)| channels)
    }

    /// Names a channel, adding it if it is not listed.
    fn rename(&mut self, platform: &str, id: &str, name: &str) {
        let position = self
            .platforms
            .iter()
            .position(|(known, _)| known.eq_ignore_ascii_case(platform))
            .unwrap_or_else(|| {
                self.platforms.push((platform.to_owned(), Vec::new()));
                self.platforms.len() - 1
            });
        let channels = &mut self.platforms[position].1;
        match channels
            .iter_mut()
            .find(|channel| channel.id.as_deref() == Some(id))
        {
            Some(channel) => name.clone_into(&mut channel.name),
            None => channels.push(Channel {
                id: Some(id.to_owned()),
                name: name.to_owned(),
                kind: "channel".into(),
                ..Channel::default()
            }),
        }
    }
}

fn channel_json(channel: &Channel) -> Value {
    let mut entry = json!({"id": channel.id, "name": channel.name, "type": channel.kind});
    for (key, value) in [("guild", &channel.guild), ("thread_id", &channel.thread_id)] {
        if let Some(value) = value {
            entry[key] = json!(value);
        }
    }
    entry
}

fn parse_channel(entry: &Value) -> Option<Channel> {
    let map = entry.as_object()?;
    Some(Channel {
        id: text(map.get("id").or_else(|| map.get("chat_id"))).filter(|id| !id.is_empty()),
        name: text(map.get("name"))
            .or_else(|| text(map.get("display_name")))
            .unwrap_or_default(),
        kind: text(map.get("type")).unwrap_or_default(),
        guild: text(map.get("guild")),
        thread_id: text(map.get("thread_id")),
    })
}

fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A file that is not JSON counts as missing: the next write of the gateway replaces it.
fn read_json(home: &Home, name: &str) -> Result<Option<Value>, StoreError> {
    let path: PathBuf = home.path().join(name);
    let text = file::read_optional(&path).map_err(|source| StoreError::Io {
        path: path.clone(),
        source,
    })?;
    let value = text.as_deref().and_then(parse_json);
    if text.is_some() && value.is_none() {
        tracing::warn!(path = %path.display(), "ignored a file that is not JSON");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn load(files: &[(&str, &str)]) -> Option<ChannelDirectory> {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(directory.path().join(name), content).unwrap();
        }
        ChannelDirectory::load(&Home::at(directory.path())).unwrap()
    }

    #[test]
    fn aliases_rename_and_add() {
        let directory = load(&[
            (
                "channel_directory.json",
                r#"{"updated_at": null, "platforms": {"discord": [
                    {"id": "1", "name": "general", "type": "channel", "guild": "G"},
                    {"id": 2, "display_name": "other"}, {"chat_id": "3", "name": "old"}, 7]}}"#,
            ),
            (
                "channel_aliases.json",
                r#"{"discord": {"1": "team", "9": "new"}, "slack": {"C1": "x"}, "y": 3}"#,
            ),
        ])
        .unwrap();
        let names: Vec<_> = directory
            .platform("Discord")
            .iter()
            .map(|channel| (channel.id.as_deref().unwrap(), channel.name.as_str()))
            .collect();
        assert_eq!(
            names,
            [("1", "team"), ("2", "other"), ("3", "old"), ("9", "new")]
        );
        assert_eq!(directory.platform("slack")[0].name, "x");
        assert_eq!(directory.platform("telegram"), []);
    }

    #[test]
    fn what_is_saved_is_read_again_without_the_names_of_the_user() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        fs::write(
            directory.path().join("channel_aliases.json"),
            r#"{"telegram": {"7:9": "mine"}}"#,
        )
        .unwrap();
        let topic = Channel {
            id: Some("7:9".into()),
            name: "Team / Plans".into(),
            kind: "group".into(),
            guild: None,
            thread_id: Some("9".into()),
        };
        let mut saved = ChannelDirectory {
            updated_at: None,
            platforms: vec![("telegram".into(), vec![topic])],
        };
        saved.save(&home).unwrap();
        let read = ChannelDirectory::load_listed(&home).unwrap().unwrap();
        assert_eq!(read, saved);
        assert!(read.updated_at.is_some_and(|time| time.ends_with('Z')));
        let named = ChannelDirectory::load(&home).unwrap().unwrap();
        assert_eq!(named.platform("telegram")[0].name, "mine");
    }

    #[test]
    fn no_directory_is_told_from_an_empty_one() {
        assert_eq!(load(&[]), None);
        assert_eq!(load(&[("channel_directory.json", "{}")]), None);
        assert_eq!(load(&[("channel_directory.json", "nonsense")]), None);
        let empty = load(&[("channel_directory.json", r#"{"platforms": {}}"#)]).unwrap();
        assert_eq!(empty.platforms, []);
    }
}
