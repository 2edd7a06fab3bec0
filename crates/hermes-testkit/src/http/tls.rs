//! A certificate authority for one server and its clients.

use std::{error::Error, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig, crypto::aws_lc_rs::default_provider,
        pki_types::PrivatePkcs8KeyDer, server::WebPkiClientVerifier,
    },
};

use crate::behaviour::Tls;

/// What a client needs to speak to a server with TLS, as PEM.
#[derive(Debug, Clone)]
pub struct Certificates {
    /// The authority to trust.
    pub authority: String,
    /// A certificate of the same authority for the client.
    pub client_certificate: String,
    pub client_key: String,
}

/// Makes an authority, a server on loopback and a client.
pub(super) fn prepare(
    tls: &Tls,
) -> Result<(Certificates, TlsAcceptor), Box<dyn Error + Send + Sync>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let authority = params.self_signed(&authority_key)?;
    let issuer = Issuer::new(params, authority_key);

    let server_key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?
        .signed_by(&server_key, &issuer)?;
    let client_key = KeyPair::generate()?;
    let client =
        CertificateParams::new(vec!["client".to_owned()])?.signed_by(&client_key, &issuer)?;

    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = if tls.require_client_certificate {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivatePkcs8KeyDer::from(server_key.serialize_der());
    let config = builder.with_single_cert(vec![server.der().clone()], key.into())?;

    let certificates = Certificates {
        authority: authority.pem(),
        client_certificate: client.pem(),
        client_key: client_key.serialize_pem(),
    };
    if let Some(directory) = &tls.directory {
        std::fs::write(directory.join("ca.pem"), &certificates.authority)?;
        std::fs::write(
            directory.join("client.pem"),
            &certificates.client_certificate,
        )?;
        std::fs::write(directory.join("client.key"), &certificates.client_key)?;
    }
    Ok((certificates, TlsAcceptor::from(Arc::new(config))))
}
