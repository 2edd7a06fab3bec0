//! TLS before a server that speaks plainly: a port with a certificate of an authority that nobody else knows.

use std::{
    error::Error,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs::default_provider, pki_types::PrivatePkcs8KeyDer},
};

use crate::server_thread::{BoundPort, ServerThread};

static AUTHORITIES: AtomicU64 = AtomicU64::new(0);

/// A port with TLS; it closes when dropped.
pub struct TlsFront {
    authority: String,
    thread: ServerThread,
}

impl TlsFront {
    /// Opens a port before `target`, with a certificate for these names.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub fn start(target: SocketAddr, names: &[&str]) -> Self {
        Self::try_start(target, names).unwrap_or_else(|error| panic!("cannot serve TLS: {error}"))
    }

    fn try_start(target: SocketAddr, names: &[&str]) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (authority, acceptor) = issue_certificate(names)?;
        let thread = BoundPort::bind(0)?.serve(move |socket| serve(socket, acceptor, target))?;
        Ok(Self { authority, thread })
    }

    /// The authority to trust, as PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }
}

/// Makes an authority and a certificate of it.
fn issue_certificate(
    names: &[&str],
) -> Result<(String, TlsAcceptor), Box<dyn Error + Send + Sync>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Two authorities of one name would be taken for each other.
    let number = AUTHORITIES.fetch_add(1, Ordering::Relaxed);
    let name = format!("Test authority {}-{number}", std::process::id());
    params.distinguished_name.push(DnType::CommonName, name);
    let authority_key = KeyPair::generate()?;
    let authority = params.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate()?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())?;
    Ok((authority, TlsAcceptor::from(Arc::new(config))))
}

async fn serve(socket: TcpListener, acceptor: TlsAcceptor, target: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = socket.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            // A client that does not trust the certificate hangs up.
            let mut near = acceptor.accept(stream).await?;
            let mut far = TcpStream::connect(target).await?;
            tokio::io::copy_bidirectional(&mut near, &mut far).await
        });
    }
}
