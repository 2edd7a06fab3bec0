//! A model server that answers by script, in OpenAI's and Anthropic's protocol, over real sockets.
//!
//! It listens on loopback and lists its models the way Ollama and OpenAI-like servers do.

mod anthropic;
mod chat;
mod log;
mod script;
mod server;
mod stream;
mod transcription;

pub use log::ModelCall;
pub use script::{
    ModelRule, ModelScript, ReplyEnding, ScriptedAnswer, ScriptedCall, ScriptedReply, ScriptedUsage,
};

use std::sync::Arc;

use crate::{
    platform::PlatformRequest,
    server_thread::{BoundPort, ServerThread},
};
use server::ScriptedModel;

/// A scripted model on a loopback port; it stops when dropped.
pub struct ModelServer {
    server: Arc<ScriptedModel>,
    thread: ServerThread,
}

impl ModelServer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(script: ModelScript) -> Self {
        Self::start_on(0, script)
    }

    /// Starts a server on a given port.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_on(port: u16, script: ModelScript) -> Self {
        Self::try_start(port, script)
            .unwrap_or_else(|error| panic!("cannot start a model on port {port}: {error}"))
    }

    fn try_start(port: u16, script: ModelScript) -> std::io::Result<Self> {
        let server = Arc::new(ScriptedModel::new(script));
        let shared = Arc::clone(&server);
        let thread = BoundPort::bind(port)?.serve(move |socket| server::serve(socket, shared))?;
        Ok(Self { server, thread })
    }

    /// The base URL of OpenAI's protocol.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    /// The address without a path: the base URL of Anthropic's protocol, and Ollama's address.
    pub fn origin(&self) -> String {
        format!("http://{}", self.thread.address())
    }

    pub fn port(&self) -> u16 {
        self.thread.address().port()
    }

    /// Every request for an answer so far, oldest first.
    pub fn requests(&self) -> Vec<ModelCall> {
        self.server.calls()
    }

    /// Every request for a transcript so far, oldest first.
    pub fn transcriptions(&self) -> Vec<PlatformRequest> {
        self.server.transcriptions()
    }

    /// Every path that was asked for, lists of models included.
    pub fn paths(&self) -> Vec<String> {
        self.server.paths()
    }

    /// Closes all connections and the listener.
    pub fn stop(&mut self) {
        self.thread.stop();
    }

    /// Waits until the server has been stopped.
    pub fn wait(&mut self) {
        self.thread.wait();
    }
}
