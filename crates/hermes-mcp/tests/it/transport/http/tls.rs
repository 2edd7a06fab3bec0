//! Certificates: private CAs, mutual TLS, and what is said when they are wrong.

use std::{path::Path, sync::Arc};

use hermes_config::server::{ClientCertificate, HttpSettings, TlsVerification};
use hermes_mcp::{
    http_client::{TlsError, client},
    transport::http::{HttpFailure, classify},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
        server::WebPkiClientVerifier,
    },
};

use super::{CONNECT_TIMEOUT, post_ping, settings};

/// A certificate authority, what it signed, and a directory with the PEM files.
struct Authority {
    ca: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

#[derive(Clone, Copy)]
enum ClientAuth {
    None,
    Required,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let authority = Self { ca, directory };
        authority.write("ca.pem", &authority.ca.pem());
        authority
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn sign(&self, purpose: ExtendedKeyUsagePurpose) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.ca).unwrap(), key)
    }

    /// An https server that answers each request like a ping; returns its URL.
    async fn serve(&self, auth: ClientAuth) -> (String, JoinSet<()>) {
        let (certificate, key) = self.sign(ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match auth {
            ClientAuth::None => builder.with_no_client_auth(),
            ClientAuth::Required => {
                let mut roots = RootCertStore::empty();
                roots.add(self.ca.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .build()
                    .unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/mcp", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, TlsAcceptor::from(Arc::new(config))));
        (url, tasks)
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(stream).await else {
            continue;
        };
        let mut buffer = [0; 4096];
        let mut request = Vec::new();
        while !request.windows(4).any(|window| window == b"ping") {
            match stream.read(&mut buffer).await {
                Ok(count) if count > 0 => request.extend_from_slice(&buffer[..count]),
                _ => break,
            }
        }
        let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        // A client that refused the certificate is gone by now.
        let _ = stream.write_all(reply.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

fn trusting(url: &str, verify: TlsVerification) -> HttpSettings {
    HttpSettings {
        verify,
        ..settings(url, &[])
    }
}

async fn tls_failure(settings: &HttpSettings) -> String {
    let error = post_ping(settings).await.unwrap_err();
    match classify(&error) {
        Some(HttpFailure::Tls(text)) => text,
        other => panic!("{other:?}: {error:?}"),
    }
}

#[tokio::test]
async fn a_private_ca_is_trusted_when_named_and_the_failure_says_how() {
    let authority = Authority::new();
    let (url, _tasks) = authority.serve(ClientAuth::None).await;
    let text = tls_failure(&trusting(&url, TlsVerification::Roots)).await;
    assert!(text.contains("UnknownIssuer"), "{text}");
    assert!(text.contains("`ssl_verify`"), "{text}");

    let ca = TlsVerification::CaFile(authority.path("ca.pem"));
    post_ping(&trusting(&url, ca)).await.unwrap();
    post_ping(&trusting(&url, TlsVerification::Off))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let (url, _tasks) = authority.serve(ClientAuth::None).await;
    let url = url.replace("127.0.0.1", "localhost");
    let ca = TlsVerification::CaFile(authority.path("ca.pem"));
    let text = tls_failure(&trusting(&url, ca)).await;
    assert!(text.contains("not valid for name"), "{text}");
}

#[tokio::test]
async fn a_plain_http_server_behind_https_is_recognised() {
    let server = super::server::Server::answering(|_| super::server::status(200)).await;
    let url = server.url("/mcp").replace("http://", "https://");
    let text = tls_failure(&settings(&url, &[])).await;
    assert!(text.contains("try `http://`"), "{text}");
}

#[tokio::test]
async fn client_certificates_work_from_one_file_or_two_and_with_an_encrypted_key() {
    let authority = Authority::new();
    let (url, _tasks) = authority.serve(ClientAuth::Required).await;
    let (certificate, key) = authority.sign(ExtendedKeyUsagePurpose::ClientAuth);
    let certificate_file = authority.write("client.pem", &certificate.pem());
    let key_file = authority.write("client.key", &key.serialize_pem());
    let both = authority.write("both.pem", &(certificate.pem() + &key.serialize_pem()));
    let encrypted = encrypt(Path::new(&key_file), "open sesame");

    let with = |client_certificate| HttpSettings {
        client_certificate,
        ..trusting(&url, TlsVerification::CaFile(authority.path("ca.pem")))
    };
    let identity = |certificate: &str, key: Option<&str>, passphrase: Option<&str>| {
        Some(ClientCertificate {
            certificate: certificate.into(),
            key: key.map(Into::into),
            passphrase: passphrase.map(Into::into),
        })
    };

    let text = tls_failure(&with(None)).await;
    assert!(text.contains("`client_cert`"), "{text}");
    for identity in [
        identity(&both, None, None),
        identity(&certificate_file, Some(&key_file), None),
        identity(&certificate_file, Some(&encrypted), Some("open sesame")),
    ] {
        post_ping(&with(identity)).await.unwrap();
    }

    let error_of = |identity| client(&with(identity), CONNECT_TIMEOUT).unwrap_err();
    let error = error_of(identity(&certificate_file, Some(&encrypted), None));
    assert!(matches!(error, TlsError::EncryptedKey { .. }), "{error:?}");
    assert!(error.to_string().contains("third item"), "{error}");
    let error = error_of(identity(&certificate_file, Some(&encrypted), Some("guess")));
    assert!(
        error.to_string().contains("pass phrase is wrong"),
        "{error}"
    );
    assert!(!error.to_string().contains("guess"), "{error}");
    let error = error_of(identity(&certificate_file, None, None));
    assert!(error.to_string().contains("client.pem"), "{error}");
}

/// Encrypts a key as `openssl pkcs8 -topk8` does; returns the new file's path.
fn encrypt(key: &Path, passphrase: &str) -> String {
    let encrypted = key.with_extension("encrypted");
    let done = std::process::Command::new("openssl")
        .args(["pkcs8", "-topk8", "-passout", &format!("pass:{passphrase}")])
        .arg("-in")
        .arg(key)
        .arg("-out")
        .arg(&encrypted)
        .status()
        .unwrap();
    assert!(done.success());
    encrypted.display().to_string()
}

#[test]
fn unusable_files_are_named() {
    let authority = Authority::new();
    let junk = authority.write("junk.pem", "nothing in here");
    let old = authority.write(
        "old.pem",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
    );
    let error_of = |settings: HttpSettings| {
        let error = client(&settings, CONNECT_TIMEOUT).unwrap_err();
        assert!(matches!(classify(&error), Some(HttpFailure::Tls(_))));
        error.to_string()
    };
    let ca = |path: &str| trusting("https://x/", TlsVerification::CaFile(path.into()));
    let identity = |path: &str| HttpSettings {
        client_certificate: Some(ClientCertificate {
            certificate: path.into(),
            key: None,
            passphrase: None,
        }),
        ..settings("https://x/", &[])
    };
    let text = error_of(ca("/no/such/ca.pem"));
    assert!(
        text.contains("`ssl_verify`") && text.contains("/no/such/ca.pem"),
        "{text}"
    );
    let text = error_of(ca(&junk));
    assert!(
        text.contains("no PEM certificate") && text.contains(&junk),
        "{text}"
    );
    let text = error_of(identity(&junk));
    assert!(
        text.contains("`client_cert`") && text.contains(&junk),
        "{text}"
    );
    let text = error_of(identity(&old));
    assert!(text.contains("openssl pkcs8"), "{text}");
}
