//! A server's entry with its references filled in, and the fingerprint of that.

use std::{fmt, path::PathBuf, time::Duration};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    Auth, CallOrder, ElicitationPolicy, EnterpriseSettings, HttpSettings, OAuthSettings,
    ProtocolChoice, RootsPolicy, SamplingPolicy, SandboxSettings, Server, StdioSettings,
    SuspiciousEntry, TlsVerification, TransportSettings, parse::check_url, suspicion,
};
use crate::{
    Home, Secret, Variables, Warning,
    reference::{ReferenceError, ReferencePolicy, Resolver},
};

/// A server's entry with every reference filled in. `Debug` shows none of the values.
#[derive(Clone)]
pub struct ResolvedServer {
    pub transport: TransportSettings,
    pub oauth: OAuthSettings,
    pub sampling: SamplingPolicy,
    pub roots: RootsPolicy,
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

/// Why an entry cannot be filled in; the server's state is then `invalid`. No variant holds a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerResolveError {
    /// A reference gave no value.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// With everything filled in, the entry looks like an attack.
    #[error(transparent)]
    Suspicious(SuspiciousEntry),
    /// With everything filled in, the address is not usable.
    #[error("`url` is not usable: {reason}")]
    Url { reason: String },
}

impl Server {
    /// Fills in every reference. Files are read and commands run, so this blocks for as long as they take (a
    /// command at most 10 s).
    pub fn resolve(
        &self,
        home: &Home,
        variables: &Variables,
        policy: ReferencePolicy,
    ) -> Result<ResolvedServer, ServerResolveError> {
        let mut resolver = Resolver::new(home, variables, policy);
        let transport = resolver.resolve_transport(&self.transport)?;
        if let TransportSettings::Stdio(stdio) = &transport {
            suspicion::check_command(stdio).map_err(ServerResolveError::Suspicious)?;
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
        let mut resolver = Resolver::new(home, variables, ReferencePolicy::variables_only());
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

impl Resolver<'_> {
    fn resolve_transport(
        &mut self,
        transport: &TransportSettings,
    ) -> Result<TransportSettings, ServerResolveError> {
        Ok(match transport {
            TransportSettings::Stdio(stdio) => TransportSettings::Stdio(self.resolve_stdio(stdio)?),
            TransportSettings::Http(http) => TransportSettings::Http(self.resolve_http(http)?),
            TransportSettings::Sse(http) => TransportSettings::Sse(self.resolve_http(http)?),
        })
    }

    fn resolve_stdio(&mut self, stdio: &StdioSettings) -> Result<StdioSettings, ReferenceError> {
        Ok(StdioSettings {
            command: self
                .resolve_text("command", &stdio.command)?
                .trim()
                .to_owned(),
            args: self.resolve_list("args", &stdio.args)?,
            env: self.resolve_pairs("env", &stdio.env)?,
            cwd: self.resolve_optional("cwd", stdio.cwd.as_ref())?,
        })
    }

    fn resolve_http(&mut self, http: &HttpSettings) -> Result<HttpSettings, ServerResolveError> {
        let url = self.resolve_text("url", &http.url)?.trim().to_owned();
        if !self.fills_variables_only() {
            check_url(&url).map_err(|reason| ServerResolveError::Url { reason })?;
        }
        let verify = match &http.verify {
            TlsVerification::CaFile(path) => {
                TlsVerification::CaFile(self.resolve_text("ssl_verify", path)?)
            }
            other => other.clone(),
        };
        let mut client_certificate = http.client_certificate.clone();
        if let Some(identity) = &mut client_certificate {
            identity.certificate = self.resolve_text("client_cert", &identity.certificate)?;
            identity.key = self.resolve_optional("client_key", identity.key.as_ref())?;
            identity.passphrase =
                self.resolve_optional("client_cert", identity.passphrase.as_ref())?;
            if let Some(passphrase) = &identity.passphrase {
                self.record_secret(passphrase);
            }
        }
        Ok(HttpSettings {
            url,
            headers: self.resolve_pairs("headers", &http.headers)?,
            verify,
            client_certificate,
            skip_preflight: http.skip_preflight,
        })
    }

    fn resolve_oauth(&mut self, oauth: &OAuthSettings) -> Result<OAuthSettings, ReferenceError> {
        let enterprise = oauth.enterprise.as_ref().map(|enterprise| {
            let mut fill = |key: &str, text: Option<&String>| {
                self.resolve_optional(&format!("oauth.enterprise.{key}"), text)
            };
            Ok(EnterpriseSettings {
                issuer: fill("issuer", enterprise.issuer.as_ref())?,
                token_endpoint: fill("token_endpoint", enterprise.token_endpoint.as_ref())?,
                client_id: fill("client_id", enterprise.client_id.as_ref())?,
                client_secret: fill("client_secret", enterprise.client_secret.as_ref())?,
                id_token: fill("id_token", Some(&enterprise.id_token))?.unwrap_or_default(),
            })
        });
        let enterprise = enterprise.transpose()?;
        let mut fill =
            |key: &str, text: Option<&String>| self.resolve_optional(&format!("oauth.{key}"), text);
        let resolved = OAuthSettings {
            client_id: fill("client_id", oauth.client_id.as_ref())?,
            client_secret: fill("client_secret", oauth.client_secret.as_ref())?,
            private_key: fill("private_key", oauth.private_key.as_ref())?,
            issuer: fill("issuer", oauth.issuer.as_ref())?,
            scope: fill("scope", oauth.scope.as_ref())?,
            redirect_port: oauth.redirect_port,
            redirect_uri: fill("redirect_uri", oauth.redirect_uri.as_ref())?,
            redirect_host: fill("redirect_host", Some(&oauth.redirect_host))?.unwrap_or_default(),
            client_name: fill("client_name", Some(&oauth.client_name))?.unwrap_or_default(),
            timeout: oauth.timeout,
            grant: oauth.grant,
            client_metadata_url: fill("client_metadata_url", oauth.client_metadata_url.as_ref())?,
            assertion: fill("assertion", oauth.assertion.as_ref())?,
            enterprise,
            dpop: oauth.dpop,
        };
        let enterprise = resolved.enterprise.as_ref();
        for secret in [
            resolved.client_secret.as_ref(),
            resolved.private_key.as_ref(),
            resolved.assertion.as_ref(),
            enterprise.and_then(|enterprise| enterprise.client_secret.as_ref()),
            enterprise.map(|enterprise| &enterprise.id_token),
        ]
        .into_iter()
        .flatten()
        {
            self.record_secret(secret);
        }
        Ok(resolved)
    }

    fn resolve_sampling(
        &mut self,
        sampling: &SamplingPolicy,
    ) -> Result<SamplingPolicy, ReferenceError> {
        Ok(SamplingPolicy {
            model: self.resolve_optional("sampling.model", sampling.model.as_ref())?,
            allowed_models: self
                .resolve_list("sampling.allowed_models", &sampling.allowed_models)?,
            ..sampling.clone()
        })
    }

    fn resolve_sandbox(
        &mut self,
        sandbox: &SandboxSettings,
    ) -> Result<SandboxSettings, ReferenceError> {
        let mut paths = |key: &str, paths: &[PathBuf]| {
            paths
                .iter()
                .map(|path| {
                    Ok(PathBuf::from(
                        self.resolve_text(key, &path.to_string_lossy())?,
                    ))
                })
                .collect::<Result<Vec<_>, ReferenceError>>()
        };
        Ok(SandboxSettings {
            read: paths("sandbox.read", &sandbox.read)?,
            write: paths("sandbox.write", &sandbox.write)?,
            ..sandbox.clone()
        })
    }
}

#[cfg(test)]
mod tests;
