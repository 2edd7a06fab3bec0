//! Filling in one entry and collecting the secrets and warnings met on the way.

use std::path::PathBuf;

use super::{
    ReferenceError, ReferenceScope,
    source::ReferenceSources,
    template::{self, TemplatePiece},
};
use crate::{
    Secret,
    server::{
        EnterpriseSettings, HttpSettings, OAuthSettings, SamplingPolicy, SandboxSettings,
        StdioSettings, TlsVerification, TransportSettings, parse::check_url,
    },
    settings::Warning,
};

/// Shorter values would take ordinary words out of messages.
const MIN_SECRET_LENGTH: usize = 6;

/// Whether a header, variable or key of that name usually holds a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "COOKIE"]
        .iter()
        .any(|word| name.contains(word))
}

/// Fills in one entry and collects what it meets on the way.
pub(super) struct Resolver<'a> {
    pub(super) sources: ReferenceSources<'a>,
    pub(super) secrets: Vec<Secret<String>>,
    pub(super) warnings: Vec<Warning>,
}

/// A text with its references filled in.
struct FilledText {
    text: String,
    /// Whether any reference had a value.
    from_reference: bool,
}

impl Resolver<'_> {
    fn fill(&mut self, key: &str, text: &str) -> Result<FilledText, ReferenceError> {
        let mut filled = FilledText {
            text: String::new(),
            from_reference: false,
        };
        for piece in template::parse_template(text) {
            let (meaning, written) = match piece {
                TemplatePiece::Text(text) => {
                    filled.text.push_str(text);
                    continue;
                }
                TemplatePiece::Reference { meaning, written } => (meaning, written),
            };
            if let Some(value) = self.sources.lookup(key, &meaning, written)? {
                if meaning.is_secret() {
                    self.record_secret(&value);
                }
                filled.text.push_str(&value);
                filled.from_reference = true;
            } else {
                self.warnings.push(Warning {
                    key: Some(key.to_owned()),
                    message: meaning.unresolved_message(written),
                });
                filled.text.push_str(written);
            }
        }
        Ok(filled)
    }

    pub(super) fn resolve_text(&mut self, key: &str, text: &str) -> Result<String, ReferenceError> {
        Ok(self.fill(key, text)?.text)
    }

    fn resolve_optional(
        &mut self,
        key: &str,
        text: Option<&String>,
    ) -> Result<Option<String>, ReferenceError> {
        text.map(|text| self.resolve_text(key, text)).transpose()
    }

    pub(super) fn resolve_list(
        &mut self,
        key: &str,
        list: &[String],
    ) -> Result<Vec<String>, ReferenceError> {
        list.iter()
            .enumerate()
            .map(|(index, text)| self.resolve_text(&format!("{key}[{index}]"), text))
            .collect()
    }

    /// Headers or variables: values that came from elsewhere, or are named so, are secrets.
    fn resolve_pairs(
        &mut self,
        key: &str,
        pairs: &[(String, String)],
    ) -> Result<Vec<(String, String)>, ReferenceError> {
        let mut resolved = Vec::with_capacity(pairs.len());
        for (name, text) in pairs {
            let value = self.fill(&format!("{key}.{name}"), text)?;
            if value.from_reference || is_secret_name(name) {
                self.record_secret(&value.text);
                if let Some(credentials) = strip_auth_scheme(&value.text) {
                    self.record_secret(credentials);
                }
            }
            resolved.push((name.clone(), value.text));
        }
        Ok(resolved)
    }

    fn record_secret(&mut self, value: &str) {
        let value = value.trim();
        let known = self.secrets.iter().any(|secret| secret.expose() == value);
        if value.chars().count() >= MIN_SECRET_LENGTH && !known {
            self.secrets.push(Secret::new(value.to_owned()));
        }
    }

    pub(super) fn resolve_transport(
        &mut self,
        transport: &TransportSettings,
    ) -> Result<TransportSettings, ReferenceError> {
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

    fn resolve_http(&mut self, http: &HttpSettings) -> Result<HttpSettings, ReferenceError> {
        let url = self.resolve_text("url", &http.url)?.trim().to_owned();
        if self.sources.policy.scope != ReferenceScope::Variables {
            check_url(&url).map_err(|reason| ReferenceError::Url { reason })?;
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

    pub(super) fn resolve_oauth(
        &mut self,
        oauth: &OAuthSettings,
    ) -> Result<OAuthSettings, ReferenceError> {
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

    pub(super) fn resolve_sampling(
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

    pub(super) fn resolve_sandbox(
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

/// The credentials of `Bearer X` and its like.
fn strip_auth_scheme(value: &str) -> Option<&str> {
    let (scheme, credentials) = value.trim().split_once(' ')?;
    ["bearer", "basic", "token"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
        .then(|| credentials.trim())
}
