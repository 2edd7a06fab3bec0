//! Connections: plain or TLS, with a certificate authority for one server and its clients, and able to hang up in the
//! middle of a request.

use std::{
    error::Error,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{extract::connect_info::Connected, serve::IncomingStream};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig, crypto::aws_lc_rs::default_provider,
        pki_types::PrivatePkcs8KeyDer, server::WebPkiClientVerifier,
    },
};

use crate::behaviour::Tls;

/// Accepts connections.
pub(super) struct HttpListener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl HttpListener {
    pub(super) fn new(socket: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        Self { socket, tls }
    }

    async fn try_accept(&self) -> io::Result<(HttpConnection, SocketAddr)> {
        let (stream, address) = self.socket.accept().await?;
        stream.set_nodelay(true)?;
        let stream: Pin<Box<dyn ByteStream>> = match &self.tls {
            None => Box::pin(stream),
            Some(tls) => {
                let limit = Duration::from_secs(5);
                let handshake = tokio::time::timeout(limit, tls.accept(stream));
                Box::pin(handshake.await??)
            }
        };
        let connection = HttpConnection {
            stream,
            hang_up: HangUp::default(),
        };
        Ok((connection, address))
    }
}

impl axum::serve::Listener for HttpListener {
    type Io = HttpConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (HttpConnection, SocketAddr) {
        loop {
            // A client without a proper certificate is refused; the next one is welcome.
            if let Ok(accepted) = self.try_accept().await {
                return accepted;
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Both directions of a byte stream.
trait ByteStream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> ByteStream for T {}

/// Makes a connection fail at its next write.
#[derive(Debug, Clone, Default)]
pub(super) struct HangUp(Arc<AtomicBool>);

impl HangUp {
    pub(super) fn close(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Connected<IncomingStream<'_, HttpListener>> for HangUp {
    fn connect_info(stream: IncomingStream<'_, HttpListener>) -> Self {
        stream.io().hang_up.clone()
    }
}

pub(super) struct HttpConnection {
    stream: Pin<Box<dyn ByteStream>>,
    hang_up: HangUp,
}

impl AsyncRead for HttpConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for HttpConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.hang_up.0.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        self.stream.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}

/// What a client needs to speak to a server with TLS, as PEM.
#[derive(Debug, Clone)]
pub struct Certificates {
    /// The authority to trust.
    pub authority: String,
    /// A certificate of the same authority for the client.
    pub client_certificate: String,
    /// The key to that certificate.
    pub client_key: String,
}

/// Makes an authority, a server on loopback and a client.
pub(super) fn prepare_tls(
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
