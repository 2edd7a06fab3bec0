//! `api_server`: where the local HTTP API listens, and who may use it.

use crate::{Secret, Variables, fields::Fields};

const DEFAULT_PORT: u32 = 8642;
const DEFAULT_CONCURRENT_RUNS: u32 = 10;

/// What is set about the local HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiServerSettings {
    /// `API_SERVER_KEY`: what clients present. Without one there is no API.
    pub key: Option<Secret<String>>,
    /// `host`: the address to listen on.
    pub host: String,
    /// `port`; 0 takes any that is free.
    pub port: u16,
    /// `allow_http`: whether it may listen beyond this machine, though it speaks no TLS.
    pub allow_http: bool,
    /// `allowed_hosts`: names it may be called by, besides those of this machine.
    pub allowed_hosts: Vec<String>,
    /// `max_concurrent_runs`: more are refused for the moment.
    pub max_concurrent_runs: u32,
}

impl Default for ApiServerSettings {
    fn default() -> Self {
        Self {
            key: None,
            host: "127.0.0.1".into(),
            port: 8642,
            allow_http: false,
            allowed_hosts: Vec::new(),
            max_concurrent_runs: DEFAULT_CONCURRENT_RUNS,
        }
    }
}

impl ApiServerSettings {
    /// Reads the settings from the places a platform's keys may stand in, the most important one first.
    pub(super) fn from_sections(parents: &[Fields], variables: &Variables) -> Self {
        let default = Self::default();
        let places: Vec<Fields> = parents
            .iter()
            .map(|parent| parent.section("api_server"))
            .collect();
        for place in &places {
            place.warn_mistyped(&[
                "enabled",
                "key",
                "host",
                "port",
                "allow_http",
                "allowed_hosts",
                "max_concurrent_runs",
            ]);
        }
        let with = |key: &str| places.iter().find(|place| place.is_set(key));
        let variable = |name: &str| {
            let value = variables.get(name)?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let is_enabled = with("enabled").is_none_or(|place| place.flag("enabled", true));
        let port = match variable("API_SERVER_PORT").and_then(|port| port.parse().ok()) {
            Some(port) => port,
            None => {
                with("port").map_or(DEFAULT_PORT, |place| place.integer("port", DEFAULT_PORT, 0))
            }
        };
        Self {
            key: variable("API_SERVER_KEY")
                .or_else(|| super::first_text(&places, "key"))
                .filter(|_| is_enabled)
                .map(Secret::new),
            host: variable("API_SERVER_HOST")
                .or_else(|| super::first_text(&places, "host"))
                .unwrap_or(default.host),
            port: u16::try_from(port).unwrap_or_else(|_| {
                if let Some(place) = with("port") {
                    place.warn(
                        "port",
                        format!("is not a port; {DEFAULT_PORT} is used instead"),
                    );
                }
                default.port
            }),
            allow_http: with("allow_http").is_some_and(|place| place.flag("allow_http", false)),
            allowed_hosts: with("allowed_hosts")
                .and_then(|place| place.texts_or_warn("allowed_hosts"))
                .unwrap_or_default(),
            max_concurrent_runs: with("max_concurrent_runs")
                .map_or(DEFAULT_CONCURRENT_RUNS, |place| {
                    place.integer("max_concurrent_runs", DEFAULT_CONCURRENT_RUNS, 1)
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn read(yaml: &str, variables: &[(&str, &str)]) -> Settings {
        let variables = Variables::from_pairs(variables.iter().copied());
        Settings::parse(yaml, variables).unwrap()
    }

    #[test]
    fn every_key_is_read_and_a_variable_wins() {
        let yaml = "
gateway:
  max_concurrent_turns: 3
  platforms:
    api_server: {host: 127.0.0.2, port: 1, key: a-key-of-the-file, max_concurrent_runs: 2}
api_server: {port: 9000, allow_http: true, allowed_hosts: [box]}
";
        let settings = read(yaml, &[("API_SERVER_KEY", "a-key-of-the-environment")]);
        let api = &settings.gateway.api_server;
        assert_eq!(
            api.key,
            Some(Secret::new("a-key-of-the-environment".to_owned()))
        );
        assert_eq!((api.host.as_str(), api.port), ("127.0.0.2", 9000));
        assert!(api.allow_http);
        assert_eq!(api.allowed_hosts, ["box"]);
        assert_eq!(api.max_concurrent_runs, 2);
        assert_eq!(settings.gateway.max_concurrent_turns, 3);
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    }

    #[test]
    fn there_are_defaults_and_nonsense_is_a_warning() {
        let settings = read("", &[]);
        assert_eq!(settings.gateway.api_server, ApiServerSettings::default());
        assert_eq!(settings.gateway.max_concurrent_turns, 16);
        let settings = read("api_server: {port: 70000, max_concurrent_runs: 0}", &[]);
        assert_eq!(settings.gateway.api_server.port, 8642);
        assert_eq!(settings.warnings.len(), 2, "{:?}", settings.warnings);
    }

    #[test]
    fn without_permission_there_is_no_key() {
        let key = [("API_SERVER_KEY", "a-key-of-the-environment")];
        let settings = read("api_server: {enabled: false}", &key);
        assert_eq!(settings.gateway.api_server.key, None);
    }
}
