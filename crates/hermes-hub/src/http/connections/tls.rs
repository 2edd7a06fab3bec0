//! Listeners: plain TCP and TLS.

use std::{collections::VecDeque, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use axum::serve::Listener;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::aws_lc_rs::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    server::TlsStream,
};

use super::ServeError;
use crate::settings::TlsSettings;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most handshakes at once; beyond that the oldest is aborted.
const MAX_HANDSHAKES: usize = 256;
/// How long to wait after `accept` failed, for example without free descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) SocketAddr);

/// Disables Nagle's algorithm: events are small and must not wait for acknowledgements.
fn set_nodelay(stream: &mut TcpStream) {
    let _ = stream.set_nodelay(true);
}

pub(crate) struct PlainListener(pub(crate) TcpListener);

impl Listener for PlainListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        let (mut stream, address) = Listener::accept(&mut self.0).await;
        set_nodelay(&mut stream);
        (stream, address)
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Accepts TLS connections. A slow handshake does not delay others.
pub(crate) struct TlsListener {
    socket: TcpListener,
    acceptor: TlsAcceptor,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
    /// Oldest first; some may have finished.
    abort_handles: VecDeque<AbortHandle>,
}

impl TlsListener {
    pub(crate) fn new(socket: TcpListener, tls: &TlsSettings) -> Result<Self, ServeError> {
        let unusable = |path: &Path, reason: String| ServeError::Certificate {
            path: path.display().to_string(),
            reason,
        };
        let chain = CertificateDer::pem_file_iter(&tls.cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| unusable(&tls.cert, error.to_string()))?;
        let key = PrivateKeyDer::from_pem_file(&tls.key)
            .map_err(|error| unusable(&tls.key, error.to_string()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| unusable(&tls.cert, error.to_string()))?;
        Ok(Self {
            socket,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            handshakes: JoinSet::new(),
            abort_handles: VecDeque::new(),
        })
    }

    fn start_handshake(&mut self, mut stream: TcpStream, address: SocketAddr) {
        set_nodelay(&mut stream);
        let acceptor = self.acceptor.clone();
        self.abort_handles
            .retain(|handshake| !handshake.is_finished());
        if self.abort_handles.len() >= MAX_HANDSHAKES
            && let Some(oldest) = self.abort_handles.pop_front()
        {
            oldest.abort();
        }
        let handshake = self.handshakes.spawn(async move {
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => Some((stream, address)),
                _ => None,
            }
        });
        self.abort_handles.push_back(handshake);
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, address)) => self.start_handshake(stream, address),
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
                },
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}
