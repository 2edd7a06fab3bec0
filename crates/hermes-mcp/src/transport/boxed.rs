//! Any transport as one type: rmcp's service is generic, and is so compiled once instead of once per transport.

use std::{error::Error, fmt};

use futures::future::BoxFuture;
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};

/// A transport of any kind.
pub(crate) struct BoxedTransport(Box<dyn DynTransport>);

impl BoxedTransport {
    pub(crate) fn new(transport: impl Transport<RoleClient> + 'static) -> Self {
        Self(Box::new(transport))
    }
}

/// [`Transport`] in a form that can be a trait object.
trait DynTransport: Send {
    fn send_message(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> BoxFuture<'static, Result<(), BoxedTransportError>>;

    fn receive_message(&mut self) -> BoxFuture<'_, Option<ServerJsonRpcMessage>>;

    fn close_transport(&mut self) -> BoxFuture<'_, Result<(), BoxedTransportError>>;
}

impl<T: Transport<RoleClient>> DynTransport for T {
    fn send_message(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> BoxFuture<'static, Result<(), BoxedTransportError>> {
        // Called here, not when it is awaited: some transports write at once.
        let sent = self.send(message);
        Box::pin(async move { sent.await.map_err(BoxedTransportError::new) })
    }

    fn receive_message(&mut self) -> BoxFuture<'_, Option<ServerJsonRpcMessage>> {
        Box::pin(self.receive())
    }

    fn close_transport(&mut self) -> BoxFuture<'_, Result<(), BoxedTransportError>> {
        Box::pin(async { self.close().await.map_err(BoxedTransportError::new) })
    }
}

impl Transport<RoleClient> for BoxedTransport {
    type Error = BoxedTransportError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.0.send_message(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<ServerJsonRpcMessage>> + Send {
        self.0.receive_message()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.0.close_transport()
    }
}

/// What the transport inside says, in its own words.
#[derive(Debug)]
pub(crate) struct BoxedTransportError(Box<dyn Error + Send + Sync>);

impl BoxedTransportError {
    fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for BoxedTransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for BoxedTransportError {
    /// The error itself: whoever looks for a cause by its type finds it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}
