//! The HTTP client of one server: certificates, proxies, timeouts.
//!
//! One client per server, since certificates differ. It holds no header of the user and follows no redirect; both are
//! the work of [`http`](crate::transport::http).

use std::{error::Error, fs, io, path::PathBuf, sync::Arc, time::Duration};

use hermes_config::server::{ClientCertificate, HttpSettings, TlsVerification};
use http::StatusCode;
use pkcs8::{EncryptedPrivateKeyInfoRef, LineEnding, SecretDocument};
use reqwest::{Certificate, ClientBuilder, Identity, dns::Resolve, redirect::Policy};
use url::{Host, Url};

/// A server that sends nothing for this long is given up.
const READ_TIMEOUT: Duration = Duration::from_mins(5);

/// Many servers close idle connections after 5 s. Dropping ours earlier keeps a request from meeting a closing one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
const ENCRYPTED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Marks a key in OpenSSL's own encryption, which has no modern replacement for its key derivation.
const OLD_ENCRYPTION: &str = "Proc-Type: 4,ENCRYPTED";

/// Why no client could be made. The texts name files, never their content.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of `ssl_verify`, `client_cert` or `client_key` cannot be read.
    #[error("`{key}`: cannot read `{}`: {source}", .path.display())]
    Read {
        key: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The CA file holds no certificate.
    #[error("`ssl_verify`: no PEM certificate in `{}`", .path.display())]
    NoCertificate { path: PathBuf },
    /// Certificate or private key of the client are missing or damaged.
    #[error("`client_cert`: {reason} in `{}`", .path.display())]
    ClientCertificate { path: PathBuf, reason: &'static str },
    /// The private key is encrypted.
    #[error("`client_key`: the private key in `{}` is encrypted: {reason}", .path.display())]
    EncryptedKey {
        path: PathBuf,
        /// What is missing or wrong, and what to do.
        reason: &'static str,
    },
    /// The TLS library refuses the settings.
    #[error("TLS cannot be set up: {reason}")]
    Setup { reason: String },
}

/// Makes the client for a server. References in the settings have been resolved; certificate files are read now.
pub fn client(
    settings: &HttpSettings,
    connect_timeout: Duration,
) -> Result<reqwest::Client, TlsError> {
    built(settings, || builder(settings, connect_timeout))
}

/// Makes the client for a login: it trusts whom the server's settings trust, shows no certificate of ours, follows no
/// redirect, and finds addresses by `resolver`.
pub(crate) fn authorization_client(
    settings: &HttpSettings,
    limit: Duration,
    resolver: Option<&Arc<dyn Resolve>>,
) -> Result<reqwest::Client, TlsError> {
    let settings = HttpSettings {
        client_certificate: None,
        ..settings.clone()
    };
    let prepared = || {
        let builder = builder(&settings, limit)?
            .timeout(limit)
            .redirect(Policy::none());
        Ok(match resolver {
            Some(resolver) => builder.dns_resolver(resolver.clone()),
            None => builder,
        })
    };
    built(&settings, prepared)
}

/// Builds a client. A system without CA certificates can still reach plain HTTP servers.
fn built(
    settings: &HttpSettings,
    prepared: impl Fn() -> Result<ClientBuilder, TlsError>,
) -> Result<reqwest::Client, TlsError> {
    let built = match prepared()?.build() {
        Err(_) if settings.url.starts_with("http://") => prepared()?.tls_certs_only([]).build(),
        other => other,
    };
    built.map_err(|error| TlsError::Setup {
        reason: root_cause(&error),
    })
}

/// All settings of a client. Proxies come from the environment, which reqwest reads by itself.
fn builder(settings: &HttpSettings, connect_timeout: Duration) -> Result<ClientBuilder, TlsError> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("hermes/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .read_timeout(READ_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tcp_nodelay(true)
        .redirect(reporting_policy());
    if settings.url.starts_with("http://") {
        // A server that leaves Nagle's algorithm on stalls every event stream by 40 ms on a connection used before.
        // Without TLS a new one costs less than that.
        builder = builder.pool_max_idle_per_host(0);
    }
    if is_loopback(&settings.url) {
        // No proxy can reach this machine's own loopback address.
        builder = builder.no_proxy();
    }
    builder = match &settings.verify {
        TlsVerification::Roots => builder,
        TlsVerification::CaFile(path) => builder.tls_certs_merge(ca_certificates(path)?),
        TlsVerification::Off => builder.tls_danger_accept_invalid_certs(true),
    };
    if let Some(certificate) = &settings.client_certificate {
        builder = builder.identity(load_identity(certificate)?);
    }
    Ok(builder)
}

/// A redirect that a server answered with.
#[derive(Debug, thiserror::Error)]
#[error("HTTP {status} redirects to {}", without_query(.target))]
pub(crate) struct RedirectReported {
    pub(crate) status: StatusCode,
    pub(crate) target: Url,
}

/// Makes a client report redirects instead of following them.
fn reporting_policy() -> Policy {
    Policy::custom(|attempt| {
        let redirect = RedirectReported {
            status: attempt.status(),
            target: attempt.url().clone(),
        };
        attempt.error(redirect)
    })
}

/// A URL as shown to people: user info and query may hold secrets.
pub(crate) fn without_query(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

fn ca_certificates(path: &str) -> Result<Vec<Certificate>, TlsError> {
    let pem = read("ssl_verify", path)?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(TlsError::NoCertificate { path: path.into() }),
    }
}

fn read(key: &'static str, path: &str) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read {
        key,
        path: path.into(),
        source,
    })
}

fn is_loopback(url: &str) -> bool {
    match Url::parse(url).as_ref().map(Url::host) {
        Ok(Some(Host::Ipv4(address))) => address.is_loopback(),
        Ok(Some(Host::Ipv6(address))) => address.is_loopback(),
        Ok(Some(Host::Domain(name))) => name == "localhost" || name.ends_with(".localhost"),
        _ => false,
    }
}

fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Reads certificate chain and private key, from one file or two.
fn load_identity(settings: &ClientCertificate) -> Result<Identity, TlsError> {
    let mut pem = read_pem("client_cert", &settings.certificate)?;
    let key_path = match &settings.key {
        Some(key) => {
            pem.push('\n');
            pem.push_str(&read_pem("client_key", key)?);
            key
        }
        None => &settings.certificate,
    };
    let pem = decrypt_key(pem, key_path, settings.passphrase.as_deref())?;
    Identity::from_pem(pem.as_bytes()).map_err(|_| TlsError::ClientCertificate {
        path: key_path.into(),
        reason: "no PEM certificate with its private key",
    })
}

fn read_pem(key: &'static str, path: &str) -> Result<String, TlsError> {
    String::from_utf8(read(key, path)?).map_err(|_| TlsError::ClientCertificate {
        path: path.into(),
        reason: "no PEM text",
    })
}

/// Puts the readable key in the place of an encrypted one.
fn decrypt_key(pem: String, path: &str, passphrase: Option<&str>) -> Result<String, TlsError> {
    let encrypted = |reason| TlsError::EncryptedKey {
        path: path.into(),
        reason,
    };
    if pem.contains(OLD_ENCRYPTION) {
        return Err(encrypted(
            "in an old format; convert it with `openssl pkcs8 -topk8 -in OLD -out NEW`",
        ));
    }
    let Some((before, rest)) = pem.split_once(ENCRYPTED_BEGIN) else {
        return Ok(pem);
    };
    let (content, after) = rest
        .split_once(ENCRYPTED_END)
        .ok_or_else(|| encrypted("and cut short"))?;
    let passphrase = passphrase
        .ok_or_else(|| encrypted("give its pass phrase as the third item of `client_cert`"))?;

    let block = format!("{ENCRYPTED_BEGIN}{content}{ENCRYPTED_END}");
    let (_, document) = SecretDocument::from_pem(&block).map_err(|_| encrypted("and damaged"))?;
    let key = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|_| encrypted("and damaged"))?
        .decrypt(passphrase)
        .map_err(|_| {
            encrypted("the pass phrase is wrong, or the method is not one of PBES2 with AES")
        })?;
    let key = key
        .to_pem("PRIVATE KEY", LineEnding::LF)
        .map_err(|_| encrypted("and damaged"))?;
    Ok(format!("{before}{}{after}", key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_by_name_and_number() {
        for url in [
            "http://127.0.0.1:1/",
            "http://[::1]/",
            "https://localhost/",
            "http://a.localhost/",
        ] {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["http://10.0.0.1/", "http://localhost.example/", "nonsense"] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
