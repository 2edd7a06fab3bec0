//! Filling in `${…}` at each connect: variables, files, commands and the keyring.
//!
//! Saving always writes the template; only what [`Server::resolve`] returns holds the values.

use std::{borrow::Cow, fmt, time::Duration};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    Home, Secret, Variables,
    server::{
        Auth, CallOrder, ElicitationPolicy, OAuthSettings, ProtocolChoice, RootsPolicy,
        SamplingPolicy, SandboxSettings, Server, SuspiciousEntry, TransportSettings, suspicion,
    },
    settings::Warning,
};

mod deferred;
mod resolver;
mod source;
mod template;

pub use deferred::ReferenceTemplate;
use resolver::Resolver;
use source::ReferenceSources;
use template::{Reference, TemplatePiece};

/// A server's entry with every reference filled in. `Debug` shows none of the values.
#[derive(Clone)]
pub struct ResolvedServer {
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

impl fmt::Debug for ResolvedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolved")
            .field("transport", &self.transport.kind())
            .field("fingerprint", &self.fingerprint)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
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

/// What a fingerprint is made of.
#[derive(Serialize)]
struct FingerprintInput<'a> {
    transport: &'a TransportSettings,
    enabled: bool,
    calls: &'a CallOrder,
    protocol: &'a ProtocolChoice,
    auth: &'a Option<Auth>,
    oauth: &'a OAuthSettings,
    sampling: &'a SamplingPolicy,
    elicitation: &'a ElicitationPolicy,
    roots: &'a RootsPolicy,
    keepalive: &'a Option<Duration>,
    idle_timeout: &'a Option<Duration>,
    max_lifetime: &'a Option<Duration>,
    lazy: bool,
    sandbox: &'a SandboxSettings,
}

/// What references of a home may reach.
#[derive(Debug, Clone)]
pub struct ReferencePolicy {
    scope: ReferenceScope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReferenceScope {
    /// Whatever the user running the process can reach.
    Everything,
    /// No commands, and no file outside the home.
    InsideHome,
    /// Variables alone: nothing is read, run or opened.
    Variables,
}

impl ReferencePolicy {
    /// For the owner of the machine account: everything.
    pub fn owner() -> Self {
        Self {
            scope: ReferenceScope::Everything,
        }
    }

    /// For a tenant: no commands, files only inside the home, and no keyring but the home's own.
    pub fn tenant() -> Self {
        Self {
            scope: ReferenceScope::InsideHome,
        }
    }
}

/// Why an entry cannot be filled in; the server's state is then `invalid`. No variant holds a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The file could not be read.
    #[error("`{key}`: `{reference}` cannot be read: {reason}")]
    File {
        key: String,
        /// The reference as written.
        reference: String,
        reason: String,
    },
    /// The command failed, took too long or printed too much.
    #[error("`{key}`: `{reference}` gave no value: {reason}")]
    Command {
        key: String,
        /// The reference as written.
        reference: String,
        reason: String,
    },
    /// Neither the keyring nor the home's own file gave a value.
    #[error("`{key}`: `{reference}` gave no value: {reason}")]
    Keyring {
        key: String,
        /// The reference as written.
        reference: String,
        reason: String,
    },
    /// This home may not use such a reference.
    #[error("`{key}`: `{reference}` is not allowed here: {reason}")]
    Refused {
        key: String,
        /// The reference as written.
        reference: String,
        reason: String,
    },
    /// With everything filled in, the entry looks like an attack.
    #[error(transparent)]
    Suspicious(SuspiciousEntry),
    /// With everything filled in, the address is not usable.
    #[error("`url` is not usable: {reason}")]
    Url { reason: String },
}

/// `${VAR}` and `${env:VAR}` filled in; unset ones and every other form stay as written.
pub(crate) fn fill_variables<'t>(text: &'t str, variables: &Variables) -> Cow<'t, str> {
    if !text.contains("${") {
        return Cow::Borrowed(text);
    }
    let mut filled = String::new();
    for piece in template::parse_template(text) {
        match piece {
            TemplatePiece::Reference {
                meaning: Reference::Variable(name),
                written,
            } => match variables.get(name) {
                Some(value) if !value.is_empty() => filled.push_str(value),
                _ => filled.push_str(written),
            },
            TemplatePiece::Text(text) => filled.push_str(text),
            TemplatePiece::Reference { written, .. } => filled.push_str(written),
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
    ) -> Result<ResolvedServer, ReferenceError> {
        let mut resolver = Resolver {
            sources: ReferenceSources {
                home,
                variables,
                policy,
            },
            secrets: Vec::new(),
            warnings: Vec::new(),
        };
        let transport = resolver.resolve_transport(&self.transport)?;
        if let TransportSettings::Stdio(stdio) = &transport {
            suspicion::check_command(stdio).map_err(ReferenceError::Suspicious)?;
        }
        let oauth = resolver.resolve_oauth(&self.oauth)?;
        let sampling = resolver.resolve_sampling(&self.sampling)?;
        let roots = match &self.roots {
            RootsPolicy::Auto => RootsPolicy::Auto,
            RootsPolicy::Directories(list) => {
                RootsPolicy::Directories(resolver.resolve_list("roots", list)?)
            }
        };
        let sandbox = resolver.resolve_sandbox(&self.sandbox)?;
        let fingerprint = self.fingerprint(&transport, &oauth, &sampling, &roots, &sandbox);
        Ok(ResolvedServer {
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

    /// The references that would stay as written, such as `${VAR}` without a value. Nothing is read, run or opened.
    pub fn unset_variables(&self, home: &Home, variables: &Variables) -> Vec<Warning> {
        let mut resolver = Resolver {
            sources: ReferenceSources {
                home,
                variables,
                policy: ReferencePolicy {
                    scope: ReferenceScope::Variables,
                },
            },
            secrets: Vec::new(),
            warnings: Vec::new(),
        };
        // Nothing is read or run in this scope, so nothing fails.
        let _ = resolver.resolve_transport(&self.transport);
        let _ = resolver.resolve_oauth(&self.oauth);
        let _ = resolver.resolve_sampling(&self.sampling);
        if let RootsPolicy::Directories(list) = &self.roots {
            let _ = resolver.resolve_list("roots", list);
        }
        let _ = resolver.resolve_sandbox(&self.sandbox);
        resolver.warnings
    }

    fn fingerprint(
        &self,
        transport: &TransportSettings,
        oauth: &OAuthSettings,
        sampling: &SamplingPolicy,
        roots: &RootsPolicy,
        sandbox: &SandboxSettings,
    ) -> Fingerprint {
        let effective = FingerprintInput {
            transport,
            enabled: self.enabled,
            calls: &self.calls,
            protocol: &self.protocol,
            auth: &self.auth,
            oauth,
            sampling,
            elicitation: &self.elicitation,
            roots,
            keepalive: &self.keepalive,
            idle_timeout: &self.idle_timeout,
            max_lifetime: &self.max_lifetime,
            lazy: self.lazy,
            sandbox,
        };
        // Settings are plain data: there is nothing in them that JSON could refuse.
        let digest = Sha256::digest(serde_json::to_vec(&effective).unwrap_or_default());
        let hex = digest.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
        Fingerprint(
            hex.filter_map(|digit| char::from_digit(digit.into(), 16))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests;
