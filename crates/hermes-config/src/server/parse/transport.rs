//! The keys that say how a server is reached.

use serde_json::Value;
use url::Url;

use super::bad_value_error;
use crate::{
    fields::{Fields, parse_flag, scalar_text},
    server::{
        ClientCertificate, HttpSettings, ServerEntryError, StdioSettings, TlsVerification,
        TransportSettings,
    },
};

#[derive(Clone, Copy, PartialEq)]
enum TransportKind {
    Stdio,
    Http,
    Sse,
}

pub(super) fn parse_transport(fields: &Fields) -> Result<TransportSettings, ServerEntryError> {
    let words = [
        ("stdio", Some(TransportKind::Stdio)),
        ("http", Some(TransportKind::Http)),
        ("sse", Some(TransportKind::Sse)),
        ("streamable_http", Some(TransportKind::Http)),
        ("streamable-http", Some(TransportKind::Http)),
    ];
    let wanted = fields.choice("transport", &words, None);
    match (fields.is_set("command"), fields.is_set("url")) {
        (true, true) => Err(ServerEntryError::BothTransports),
        (false, false) => Err(ServerEntryError::NoTransport),
        (true, false) => match wanted {
            None | Some(TransportKind::Stdio) => Ok(TransportSettings::Stdio(parse_stdio(fields)?)),
            Some(_) => Err(contradiction_error(
                "an `http` or `sse` server needs `url`, not `command`",
            )),
        },
        (false, true) => match wanted {
            None | Some(TransportKind::Http) => Ok(TransportSettings::Http(parse_http(fields)?)),
            Some(TransportKind::Sse) => Ok(TransportSettings::Sse(parse_http(fields)?)),
            Some(TransportKind::Stdio) => Err(contradiction_error(
                "a `stdio` server needs `command`, not `url`",
            )),
        },
    }
}

fn contradiction_error(reason: &str) -> ServerEntryError {
    bad("transport", reason)
}

fn bad(key: &str, reason: &str) -> ServerEntryError {
    ServerEntryError::BadValue {
        key: key.into(),
        reason: reason.into(),
    }
}

fn parse_stdio(fields: &Fields) -> Result<StdioSettings, ServerEntryError> {
    let command = fields.get("command").and_then(scalar_text).ok_or_else(|| {
        bad(
            "command",
            "must be a string; arguments go into the list `args`",
        )
    })?;
    let command = command.trim().to_owned();
    if command.is_empty() {
        return Err(bad("command", "is empty; name the program to start"));
    }
    for key in [
        "headers",
        "ssl_verify",
        "client_cert",
        "client_key",
        "skip_preflight",
    ] {
        if fields.is_set(key) {
            fields.warn(key, "only applies to servers with `url`; it is ignored");
        }
    }
    Ok(StdioSettings {
        command,
        args: parse_args(fields)?,
        env: fields
            .pairs("env")
            .map_err(|bad| bad_value_error("", &bad))?,
        cwd: cwd(fields),
    })
}

fn parse_args(fields: &Fields) -> Result<Vec<String>, ServerEntryError> {
    let expected = || {
        bad(
            "args",
            "must be a list, such as `args: [\"-y\", \"package\"]`",
        )
    };
    match fields.get("args") {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| scalar_text(item).map(Into::into).ok_or_else(expected))
            .collect(),
        Some(_) => Err(expected()),
    }
}

fn cwd(fields: &Fields) -> Option<String> {
    let (cwd, workdir) = (fields.text("cwd"), fields.text("workdir"));
    if cwd.is_some() && workdir.is_some() {
        fields.warn("workdir", "means the same as `cwd`, which is used");
    }
    cwd.or(workdir)
}

fn parse_http(fields: &Fields) -> Result<HttpSettings, ServerEntryError> {
    let url = fields
        .get("url")
        .and_then(Value::as_str)
        .ok_or_else(|| bad("url", "must be a string"))?
        .trim()
        .to_owned();
    // With references in it the address is known, and checked, only when they are filled in.
    if !url.contains("${") {
        check_url(&url).map_err(|reason| ServerEntryError::BadUrl { reason })?;
    }
    for key in ["args", "env", "cwd", "workdir", "sandbox"] {
        if fields.is_set(key) {
            fields.warn(key, "only applies to servers with `command`; it is ignored");
        }
    }
    Ok(HttpSettings {
        url,
        headers: fields
            .pairs("headers")
            .map_err(|bad| bad_value_error("", &bad))?,
        verify: parse_verification(fields),
        client_certificate: parse_client_certificate(fields)?,
        skip_preflight: fields.flag("skip_preflight", false),
    })
}

/// What is wrong with an address, if anything. The answer never repeats it: it may hold a password.
pub(crate) fn check_url(url: &str) -> Result<(), String> {
    let parsed = Url::parse(url).map_err(|error| format!("{error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(format!(
            "it begins with `{}:`, only `http:` and `https:` are supported",
            parsed.scheme()
        ));
    }
    match parsed.host_str() {
        Some(host) if !host.is_empty() => Ok(()),
        _ => Err("it has no host".into()),
    }
}

/// A flag, or the path of a CA bundle. Whatever else is there, certificates are verified.
fn parse_verification(fields: &Fields) -> TlsVerification {
    match fields.get("ssl_verify") {
        None => TlsVerification::Roots,
        Some(value) => match (
            fields
                .filled("ssl_verify")
                .and_then(|value| parse_flag(&value)),
            value,
        ) {
            (Some(true), _) => TlsVerification::Roots,
            (Some(false), _) => TlsVerification::Off,
            (None, Value::String(path)) if !path.trim().is_empty() => {
                TlsVerification::CaFile(path.clone())
            }
            _ => {
                fields.warn(
                    "ssl_verify",
                    "must be true, false or the path of a CA bundle; true is used instead",
                );
                TlsVerification::Roots
            }
        },
    }
}

fn parse_client_certificate(
    fields: &Fields,
) -> Result<Option<ClientCertificate>, ServerEntryError> {
    let key = fields.text("client_key");
    let parts = match fields.get("client_cert") {
        None if key.is_some() => {
            return Err(bad("client_key", "needs `client_cert` beside it"));
        }
        None => return Ok(None),
        Some(Value::Array(parts)) => {
            if key.is_some() {
                fields.warn("client_key", "is ignored, as `client_cert` is a list");
            }
            parts
                .iter()
                .map(|part| part.as_str().map(str::to_owned))
                .collect()
        }
        Some(Value::String(certificate)) => Some(
            std::iter::once(certificate.clone())
                .chain(key)
                .collect::<Vec<_>>(),
        ),
        Some(_) => None,
    };
    let mut parts = parts.unwrap_or_default().into_iter();
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(certificate), key, passphrase, None) => Ok(Some(ClientCertificate {
            certificate,
            key,
            passphrase,
        })),
        _ => Err(bad(
            "client_cert",
            "must be a path, `[certificate, key]` or `[certificate, key, pass phrase]`",
        )),
    }
}
