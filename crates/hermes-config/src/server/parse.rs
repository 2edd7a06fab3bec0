//! From the mapping under a server's name to a [`Server`].
//!
//! A mistake in a number or flag is a warning. A value that decides what runs, what is sent or what is withheld
//! (`command`, `args`, `tools.include`, `sandbox`, …) makes the entry unusable instead of being guessed.

use std::{cell::RefCell, path::PathBuf, time::Duration};

use serde_json::Value;

use super::{
    AuditLevel, Auth, CallOrder, ElicitationPolicy, PinTools, ProtocolChoice, RootsPolicy,
    SamplingPolicy, SandboxSettings, Server, ServerEntry, ServerEntryError, ServerName, ToolPolicy,
    TransportSettings, suspicion,
};
use crate::{
    Variables, Warning,
    fields::{BadValue, Fields, parse_flag},
};

mod oauth;
mod transport;

pub(crate) use transport::check_url;

const ENTRY_KEYS: [&str; 30] = [
    "command",
    "args",
    "env",
    "cwd",
    "workdir",
    "url",
    "headers",
    "enabled",
    "timeout",
    "connect_timeout",
    "supports_parallel_tool_calls",
    "tools",
    "protocol",
    "auth",
    "oauth",
    "sampling",
    "elicitation",
    "roots",
    "transport",
    "keepalive_interval",
    "idle_timeout_seconds",
    "max_lifetime_seconds",
    "lifecycle",
    "lazy",
    "skip_preflight",
    "ssl_verify",
    "client_cert",
    "client_key",
    "pin_tools",
    "sandbox",
];

impl ServerEntry {
    /// Reads one entry by itself: what a command is about to save, or another product's entry.
    pub fn parse(name: &str, template: Value, variables: &Variables) -> (Self, Vec<Warning>) {
        let warnings = RefCell::new(Vec::new());
        let server = match &template {
            Value::Object(map) => {
                let root = Fields::root(&template, variables, &warnings);
                server(&ServerName::new(name), &root.mapping(name, map))
            }
            _ => Err(ServerEntryError::NoTransport),
        };
        let entry = Self {
            name: ServerName::new(name),
            server,
            template,
        };
        (entry, warnings.into_inner())
    }
}

/// Reads the keys of one entry.
pub(crate) fn server(name: &ServerName, fields: &Fields) -> Result<Server, ServerEntryError> {
    fields.warn_unknown(&ENTRY_KEYS);
    let transport = transport::parse_transport(fields)?;
    if let TransportSettings::Stdio(stdio) = &transport {
        suspicion::check_command(stdio).map_err(ServerEntryError::Suspicious)?;
    }
    let auth = auth(fields, &transport);
    let (idle_timeout, max_lifetime) = parse_lifecycle(fields);
    let parallel = fields.flag("supports_parallel_tool_calls", false);
    let protocols = [
        ("auto", ProtocolChoice::Auto),
        ("stateless", ProtocolChoice::Stateless),
        ("legacy", ProtocolChoice::Legacy),
    ];
    Ok(Server {
        name: name.clone(),
        enabled: fields.flag("enabled", true),
        timeout: fields.seconds("timeout", Duration::from_mins(2)),
        connect_timeout: fields.seconds("connect_timeout", Duration::from_mins(1)),
        connect_timeout_is_set: fields.is_set("connect_timeout"),
        calls: if parallel {
            CallOrder::Parallel
        } else {
            CallOrder::OneByOne
        },
        tools: parse_tools(fields)?,
        protocol: fields.choice("protocol", &protocols, ProtocolChoice::Auto),
        auth,
        oauth: oauth::parse_oauth(&fields.section("oauth"))?,
        sampling: parse_sampling(&fields.section("sampling")),
        elicitation: parse_elicitation(&fields.section("elicitation")),
        roots: parse_roots(fields),
        keepalive: parse_keepalive(fields, &transport),
        idle_timeout,
        max_lifetime,
        lazy: fields.flag("lazy", false),
        pin_tools: parse_pin_tools(fields),
        sandbox: parse_sandbox(fields)?,
        transport,
    })
}

fn bad_value_error(prefix: &str, bad: &BadValue) -> ServerEntryError {
    ServerEntryError::BadValue {
        key: format!("{prefix}{}", bad.key),
        reason: bad.expected.into(),
    }
}

fn auth(fields: &Fields, transport: &TransportSettings) -> Option<Auth> {
    let auth = fields.choice(
        "auth",
        &[("oauth", Some(Auth::OAuth)), ("none", None)],
        None,
    );
    if auth.is_some() && matches!(transport, TransportSettings::Stdio(_)) {
        fields.warn("auth", "only applies to servers with `url`; it is ignored");
        return None;
    }
    auth
}

fn parse_tools(fields: &Fields) -> Result<ToolPolicy, ServerEntryError> {
    if fields.get("tools").is_some_and(|tools| !tools.is_object()) {
        return Err(ServerEntryError::BadValue {
            key: "tools".into(),
            reason: "must be a mapping, such as `tools: {include: [name]}`".into(),
        });
    }
    let tools = fields.section("tools");
    tools.warn_unknown(&["include", "exclude", "resources", "prompts", "approve"]);
    // Filters apply without a reconnect, so their references are filled in here.
    let list = |key| {
        let list = tools
            .texts(key)
            .map_err(|bad| bad_value_error("tools.", &bad))?;
        Ok(list.map(|list| list.iter().map(|text| tools.fill(text)).collect()))
    };
    Ok(ToolPolicy {
        include: list("include")?,
        exclude: list("exclude")?,
        approve: list("approve")?.unwrap_or_default(),
        resources: tools.flag("resources", true),
        prompts: tools.flag("prompts", true),
    })
}

fn parse_sampling(fields: &Fields) -> SamplingPolicy {
    fields.warn_unknown(&[
        "enabled",
        "model",
        "max_tokens_cap",
        "timeout",
        "max_rpm",
        "allowed_models",
        "max_tool_rounds",
        "log_level",
    ]);
    let default = SamplingPolicy::default();
    let levels = [
        ("debug", AuditLevel::Debug),
        ("info", AuditLevel::Info),
        ("warning", AuditLevel::Warning),
    ];
    let timeout = fields.decimal("timeout", default.timeout.as_secs_f64(), 1.0);
    SamplingPolicy {
        enabled: fields.flag("enabled", default.enabled),
        model: fields.text("model").filter(|model| !model.is_empty()),
        max_tokens_cap: fields.integer("max_tokens_cap", default.max_tokens_cap, 1),
        timeout: Duration::try_from_secs_f64(timeout).unwrap_or(default.timeout),
        max_rpm: fields.integer("max_rpm", default.max_rpm, 1),
        allowed_models: fields.texts_or_warn("allowed_models").unwrap_or_default(),
        max_tool_rounds: fields.integer("max_tool_rounds", default.max_tool_rounds, 0),
        log_level: fields.choice("log_level", &levels, default.log_level),
    }
}

fn parse_elicitation(fields: &Fields) -> ElicitationPolicy {
    fields.warn_unknown(&["enabled", "timeout"]);
    let default = ElicitationPolicy::default();
    ElicitationPolicy {
        enabled: fields.flag("enabled", default.enabled),
        timeout: fields.seconds("timeout", default.timeout),
    }
}

fn parse_roots(fields: &Fields) -> RootsPolicy {
    match fields.texts_or_warn("roots") {
        None => RootsPolicy::Auto,
        Some(list) => match list.as_slice() {
            [word] if word == "auto" => RootsPolicy::Auto,
            _ => RootsPolicy::Directories(list),
        },
    }
}

fn parse_keepalive(fields: &Fields, transport: &TransportSettings) -> Option<Duration> {
    const KEY: &str = "keepalive_interval";
    const LEAST: Duration = Duration::from_secs(5);
    let default = match transport {
        TransportSettings::Stdio(_) => None,
        TransportSettings::Http(_) | TransportSettings::Sse(_) => Some(Duration::from_mins(3)),
    };
    let interval = fields.seconds_or_off(KEY, default);
    match interval {
        Some(time) if time < LEAST => {
            fields.warn(
                KEY,
                "must be 0 for off, or at least 5 seconds; 5 is used instead",
            );
            Some(LEAST)
        }
        other => other,
    }
}

/// Both limits, written in the entry itself or under `lifecycle`.
fn parse_lifecycle(fields: &Fields) -> (Option<Duration>, Option<Duration>) {
    let nested = fields.section("lifecycle");
    nested.warn_unknown(&["idle_timeout_seconds", "max_lifetime_seconds"]);
    let limit = |key| {
        let default = nested.seconds_or_off(key, None);
        fields.seconds_or_off(key, default)
    };
    (limit("idle_timeout_seconds"), limit("max_lifetime_seconds"))
}

fn parse_pin_tools(fields: &Fields) -> PinTools {
    let words = [
        ("off", PinTools::Off),
        ("warn", PinTools::Warn),
        ("block", PinTools::Block),
        ("false", PinTools::Off),
    ];
    fields.choice("pin_tools", &words, PinTools::Warn)
}

fn parse_sandbox(fields: &Fields) -> Result<SandboxSettings, ServerEntryError> {
    let bad = |key: &str, reason: &str| ServerEntryError::BadValue {
        key: key.into(),
        reason: reason.into(),
    };
    match fields.get("sandbox") {
        Some(Value::Object(_)) | None => {}
        // `sandbox: true` leaves nothing to guess.
        Some(other) => {
            let enabled = parse_flag(other)
                .ok_or_else(|| bad("sandbox", "must be a mapping, or true or false"))?;
            return Ok(SandboxSettings {
                enabled,
                ..SandboxSettings::default()
            });
        }
    }
    let section = fields.section("sandbox");
    section.warn_unknown(&[
        "enabled",
        "read",
        "write",
        "network",
        "unix_sockets",
        "required",
    ]);
    if !section.is_set("enabled") && section.entries().next().is_some() {
        section.warn(
            "enabled",
            "is not set, so the server is not confined; set it to true, or to false if that is intended",
        );
    }
    let switch = |key: &'static str| match section.filled(key) {
        None => Ok(false),
        Some(value) => parse_flag(&value)
            .ok_or_else(|| bad(&format!("sandbox.{key}"), "must be true or false")),
    };
    let paths = |key: &'static str| {
        let list = section
            .texts(key)
            .map_err(|bad| bad_value_error("sandbox.", &bad))?;
        Ok(list
            .unwrap_or_default()
            .into_iter()
            .map(PathBuf::from)
            .collect())
    };
    let is_denied = |key: &'static str| match section.text(key).as_deref() {
        None | Some("allow") => Ok(false),
        Some("deny") => Ok(true),
        Some(_) => Err(bad(&format!("sandbox.{key}"), "must be `allow` or `deny`")),
    };
    Ok(SandboxSettings {
        enabled: switch("enabled")?,
        read: paths("read")?,
        write: paths("write")?,
        network_denied: is_denied("network")?,
        unix_sockets_denied: is_denied("unix_sockets")?,
        required: switch("required")?,
    })
}

#[cfg(test)]
mod tests;
