//! Filling in `${…}` at each connect: variables, files, commands and the keyring.
//!
//! Saving always writes the template; only what [`Server::resolve`] returns holds the values.

use std::{borrow::Cow, fmt, path::PathBuf, sync::Arc};

use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    Home, Secret, Variables,
    server::{
        HttpSettings, OAuthSettings, RootsPolicy, SamplingPolicy, SandboxSettings, Server,
        StdioSettings, TlsVerification, TransportSettings, parse::check_url,
    },
    settings::Warning,
};

mod source;
mod template;

use source::Sources;
use template::{Piece, Reference};

/// A server's entry with every reference filled in.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// How to reach it.
    pub transport: TransportSettings,
    /// `oauth.*`.
    pub oauth: OAuthSettings,
    /// `sampling.*`.
    pub sampling: SamplingPolicy,
    /// `roots`.
    pub roots: RootsPolicy,
    /// `sandbox.*`.
    pub sandbox: SandboxSettings,
    /// Values that must not appear in any message.
    pub secrets: Vec<Secret<String>>,
    /// References that stayed as written.
    pub warnings: Vec<Warning>,
    /// Changes exactly when the server has to be restarted.
    pub fingerprint: Fingerprint,
}

/// Identifies what a server runs with: a hash of its effective entry without `tools`, `timeout` and `pin_tools`,
/// which apply without a restart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where `${keyring:name}` is read from.
pub trait Keyring: Send + Sync {
    /// The value kept under a name.
    fn read(&self, name: &str) -> Result<String, KeyringError>;
}

/// Why a keyring gave no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// Nothing is kept under that name.
    #[error("the keyring has no such entry")]
    Missing,
    /// The keyring itself can not be used; the text says why.
    #[error("{0}")]
    Unavailable(String),
}

/// What references of a home may reach.
#[derive(Clone)]
pub struct ReferencePolicy {
    reach: Reach,
    keyring: Option<Arc<dyn Keyring>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Whatever the user running the process can reach.
    Everything,
    /// No commands, and no file outside the home.
    InsideHome,
}

impl ReferencePolicy {
    /// For the owner of the machine account: everything.
    pub fn owner() -> Self {
        Self {
            reach: Reach::Everything,
            keyring: None,
        }
    }

    /// For a tenant: no commands, and files only inside the home.
    pub fn tenant() -> Self {
        Self {
            reach: Reach::InsideHome,
            keyring: None,
        }
    }

    /// The same with a keyring to read from.
    #[must_use]
    pub fn with_keyring(self, keyring: Arc<dyn Keyring>) -> Self {
        Self {
            keyring: Some(keyring),
            ..self
        }
    }
}

impl fmt::Debug for ReferencePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReferencePolicy")
            .field("reach", &self.reach)
            .field("keyring", &self.keyring.is_some())
            .finish()
    }
}

/// Why an entry can not be filled in; the server's state is then `invalid`. No variant holds a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The file could not be read.
    #[error("`{key}`: `{reference}` can not be read: {reason}")]
    File {
        /// The key it stands under.
        key: String,
        /// The reference as written.
        reference: String,
        /// Why not.
        reason: String,
    },
    /// The command failed, took too long or printed too much.
    #[error("`{key}`: `{reference}` gave no value: {reason}")]
    Command {
        /// The key it stands under.
        key: String,
        /// The reference as written.
        reference: String,
        /// Why not.
        reason: String,
    },
    /// The keyring gave no value, or there is none.
    #[error("`{key}`: `{reference}` gave no value: {reason}")]
    Keyring {
        /// The key it stands under.
        key: String,
        /// The reference as written.
        reference: String,
        /// Why not.
        reason: String,
    },
    /// This home may not use such a reference.
    #[error("`{key}`: `{reference}` is not allowed here: {reason}")]
    Refused {
        /// The key it stands under.
        key: String,
        /// The reference as written.
        reference: String,
        /// The rule.
        reason: String,
    },
    /// With everything filled in, the address is none.
    #[error("`url` is not usable: {reason}")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
}

/// `${VAR}` and `${env:VAR}` filled in; unset ones and every other form stay as written.
pub(crate) fn fill_variables<'t>(text: &'t str, variables: &Variables) -> Cow<'t, str> {
    if !text.contains("${") {
        return Cow::Borrowed(text);
    }
    let mut filled = String::new();
    for piece in template::pieces(text) {
        match piece {
            Piece::Reference {
                meaning: Reference::Variable(name),
                written,
            } => match variables.get(name) {
                Some(value) if !value.is_empty() => filled.push_str(value),
                _ => filled.push_str(written),
            },
            Piece::Text(text) => filled.push_str(text),
            Piece::Reference { written, .. } => filled.push_str(written),
        }
    }
    Cow::Owned(filled)
}

impl Server {
    /// Fills in every reference. Files are read and commands run, so this blocks for as long as they take (a
    /// command at most 10 s).
    pub fn resolve(
        &self,
        home: &Home,
        variables: &Variables,
        policy: ReferencePolicy,
    ) -> Result<Resolved, ReferenceError> {
        let mut resolver = Resolver {
            sources: Sources {
                home,
                variables,
                policy,
            },
            secrets: Vec::new(),
            warnings: Vec::new(),
        };
        let transport = resolver.transport(&self.transport)?;
        let oauth = resolver.oauth(&self.oauth)?;
        let sampling = resolver.sampling(&self.sampling)?;
        let roots = match &self.roots {
            RootsPolicy::Auto => RootsPolicy::Auto,
            RootsPolicy::Directories(list) => {
                RootsPolicy::Directories(resolver.list("roots", list)?)
            }
        };
        let sandbox = resolver.sandbox(&self.sandbox)?;
        let fingerprint = self.fingerprint(&transport, &oauth, &sampling, &roots, &sandbox);
        Ok(Resolved {
            transport,
            oauth,
            sampling,
            roots,
            sandbox,
            secrets: resolver.secrets,
            warnings: resolver.warnings,
            fingerprint,
        })
    }

    fn fingerprint(
        &self,
        transport: &TransportSettings,
        oauth: &OAuthSettings,
        sampling: &SamplingPolicy,
        roots: &RootsPolicy,
        sandbox: &SandboxSettings,
    ) -> Fingerprint {
        let effective = json!({
            "transport": transport,
            "enabled": self.enabled,
            "connect_timeout": self.connect_timeout,
            "calls": self.calls,
            "protocol": self.protocol,
            "auth": self.auth,
            "oauth": oauth,
            "sampling": sampling,
            "elicitation": self.elicitation,
            "roots": roots,
            "keepalive": self.keepalive,
            "idle_timeout": self.idle_timeout,
            "max_lifetime": self.max_lifetime,
            "lazy": self.lazy,
            "sandbox": sandbox,
        });
        let digest = Sha256::digest(effective.to_string().as_bytes());
        Fingerprint(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Shorter values would take ordinary words out of messages.
const SHORTEST_SECRET: usize = 6;

/// Whether a header, variable or key of that name usually holds a secret.
fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "COOKIE"]
        .iter()
        .any(|word| name.contains(word))
}

/// Fills in one entry and collects what it meets on the way.
struct Resolver<'a> {
    sources: Sources<'a>,
    secrets: Vec<Secret<String>>,
    warnings: Vec<Warning>,
}

/// A text with its references filled in.
struct Filled {
    text: String,
    /// Whether any reference had a value.
    from_reference: bool,
}

impl Resolver<'_> {
    fn fill(&mut self, key: &str, text: &str) -> Result<Filled, ReferenceError> {
        let mut filled = Filled {
            text: String::new(),
            from_reference: false,
        };
        for piece in template::pieces(text) {
            let (meaning, written) = match piece {
                Piece::Text(text) => {
                    filled.text.push_str(text);
                    continue;
                }
                Piece::Reference { meaning, written } => (meaning, written),
            };
            match self.sources.value(key, &meaning, written)? {
                Some(value) => {
                    if meaning.is_secret() {
                        self.keep_secret(&value);
                    }
                    filled.text.push_str(&value);
                    filled.from_reference = true;
                }
                None => {
                    self.warnings.push(Warning {
                        key: Some(key.to_owned()),
                        message: meaning.unfilled(written),
                    });
                    filled.text.push_str(written);
                }
            }
        }
        Ok(filled)
    }

    fn text(&mut self, key: &str, text: &str) -> Result<String, ReferenceError> {
        Ok(self.fill(key, text)?.text)
    }

    fn optional(
        &mut self,
        key: &str,
        text: Option<&String>,
    ) -> Result<Option<String>, ReferenceError> {
        text.map(|text| self.text(key, text)).transpose()
    }

    fn list(&mut self, key: &str, list: &[String]) -> Result<Vec<String>, ReferenceError> {
        list.iter()
            .enumerate()
            .map(|(index, text)| self.text(&format!("{key}[{index}]"), text))
            .collect()
    }

    /// Headers or variables: values that came from elsewhere, or are named so, are secrets.
    fn pairs(
        &mut self,
        key: &str,
        pairs: &[(String, String)],
    ) -> Result<Vec<(String, String)>, ReferenceError> {
        let mut resolved = Vec::with_capacity(pairs.len());
        for (name, text) in pairs {
            let value = self.fill(&format!("{key}.{name}"), text)?;
            if value.from_reference || names_a_secret(name) {
                self.keep_secret(&value.text);
                if let Some(credentials) = without_scheme(&value.text) {
                    self.keep_secret(credentials);
                }
            }
            resolved.push((name.clone(), value.text));
        }
        Ok(resolved)
    }

    fn keep_secret(&mut self, value: &str) {
        let value = value.trim();
        let known = self.secrets.iter().any(|secret| secret.expose() == value);
        if value.chars().count() >= SHORTEST_SECRET && !known {
            self.secrets.push(Secret::new(value.to_owned()));
        }
    }

    fn transport(
        &mut self,
        transport: &TransportSettings,
    ) -> Result<TransportSettings, ReferenceError> {
        Ok(match transport {
            TransportSettings::Stdio(stdio) => TransportSettings::Stdio(self.stdio(stdio)?),
            TransportSettings::Http(http) => TransportSettings::Http(self.http(http)?),
            TransportSettings::Sse(http) => TransportSettings::Sse(self.http(http)?),
        })
    }

    fn stdio(&mut self, stdio: &StdioSettings) -> Result<StdioSettings, ReferenceError> {
        Ok(StdioSettings {
            command: self.text("command", &stdio.command)?.trim().to_owned(),
            args: self.list("args", &stdio.args)?,
            env: self.pairs("env", &stdio.env)?,
            cwd: self.optional("cwd", stdio.cwd.as_ref())?,
        })
    }

    fn http(&mut self, http: &HttpSettings) -> Result<HttpSettings, ReferenceError> {
        let url = self.text("url", &http.url)?.trim().to_owned();
        check_url(&url).map_err(|reason| ReferenceError::Url { reason })?;
        let verify = match &http.verify {
            TlsVerification::CaFile(path) => {
                TlsVerification::CaFile(self.text("ssl_verify", path)?)
            }
            other => other.clone(),
        };
        let mut client_certificate = http.client_certificate.clone();
        if let Some(identity) = &mut client_certificate {
            identity.certificate = self.text("client_cert", &identity.certificate)?;
            identity.key = self.optional("client_key", identity.key.as_ref())?;
            identity.passphrase = self.optional("client_cert", identity.passphrase.as_ref())?;
            if let Some(passphrase) = &identity.passphrase {
                self.keep_secret(passphrase);
            }
        }
        Ok(HttpSettings {
            url,
            headers: self.pairs("headers", &http.headers)?,
            verify,
            client_certificate,
            skip_preflight: http.skip_preflight,
        })
    }

    fn oauth(&mut self, oauth: &OAuthSettings) -> Result<OAuthSettings, ReferenceError> {
        let resolved = OAuthSettings {
            client_id: self.optional("oauth.client_id", oauth.client_id.as_ref())?,
            client_secret: self.optional("oauth.client_secret", oauth.client_secret.as_ref())?,
            scope: self.optional("oauth.scope", oauth.scope.as_ref())?,
            redirect_port: oauth.redirect_port,
            redirect_uri: self.optional("oauth.redirect_uri", oauth.redirect_uri.as_ref())?,
            redirect_host: self.text("oauth.redirect_host", &oauth.redirect_host)?,
            client_name: self.text("oauth.client_name", &oauth.client_name)?,
            timeout: oauth.timeout,
            grant: oauth.grant,
            client_metadata_url: self.optional(
                "oauth.client_metadata_url",
                oauth.client_metadata_url.as_ref(),
            )?,
        };
        if let Some(secret) = &resolved.client_secret {
            self.keep_secret(secret);
        }
        Ok(resolved)
    }

    fn sampling(&mut self, sampling: &SamplingPolicy) -> Result<SamplingPolicy, ReferenceError> {
        Ok(SamplingPolicy {
            model: self.optional("sampling.model", sampling.model.as_ref())?,
            allowed_models: self.list("sampling.allowed_models", &sampling.allowed_models)?,
            ..sampling.clone()
        })
    }

    fn sandbox(&mut self, sandbox: &SandboxSettings) -> Result<SandboxSettings, ReferenceError> {
        let mut paths = |key: &str, paths: &[PathBuf]| {
            paths
                .iter()
                .map(|path| Ok(PathBuf::from(self.text(key, &path.to_string_lossy())?)))
                .collect::<Result<Vec<_>, ReferenceError>>()
        };
        Ok(SandboxSettings {
            read: paths("sandbox.read", &sandbox.read)?,
            write: paths("sandbox.write", &sandbox.write)?,
            ..sandbox.clone()
        })
    }
}

/// The credentials of `Bearer X` and its like.
fn without_scheme(value: &str) -> Option<&str> {
    let (scheme, credentials) = value.trim().split_once(' ')?;
    ["bearer", "basic", "token"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
        .then(|| credentials.trim())
}

#[cfg(test)]
mod tests;
