//! The two ways to begin, and the check that a request belongs to an era this server speaks.

use std::{
    io::{self, Write},
    sync::atomic::Ordering,
};

use serde_json::{Value, json};

use super::{
    ServerScript, lock,
    request::{RequestOutcome, ScriptRequest},
};
use crate::{
    behaviour::{DiscoverBehaviour, Era},
    wire::{self, RpcError},
};

impl ServerScript {
    pub(super) fn server_info(&self) -> Value {
        json!({ "name": self.behaviour.name, "version": env!("CARGO_PKG_VERSION") })
    }

    fn supported_versions(&self) -> Vec<String> {
        if let Some(versions) = &self.behaviour.supported_versions {
            return versions.clone();
        }
        let stateless = (self.behaviour.era != Era::Legacy).then_some(wire::STATELESS);
        let legacy = (self.behaviour.era != Era::Stateless).then_some(wire::LEGACY);
        stateless
            .into_iter()
            .chain(legacy.into_iter().flatten())
            .map(str::to_owned)
            .collect()
    }

    fn unsupported_version(&self, requested: &str) -> RpcError {
        RpcError::new(wire::UNSUPPORTED_VERSION, "Unsupported protocol version")
            .with_data(json!({ "requested": requested, "supported": self.supported_versions() }))
    }

    fn capabilities(&self) -> Value {
        let announced = !self.behaviour.lists.unannounced;
        let mut capabilities = json!({ "tools": { "listChanged": announced }, "logging": {} });
        if self.behaviour.resources {
            capabilities["resources"] = json!({ "subscribe": true, "listChanged": announced });
        }
        if self.behaviour.prompts {
            capabilities["prompts"] = json!({ "listChanged": announced });
        }
        capabilities
    }

    /// Refuses requests of an era that is not spoken, and those before the handshake.
    pub(super) fn check_era(&self, request: &ScriptRequest) -> Result<(), RpcError> {
        let method = request.method.as_str();
        if method == "server/discover" && self.behaviour.discover != DiscoverBehaviour::Ok {
            return Ok(());
        }
        if method == "server/discover" && self.behaviour.era == Era::Legacy {
            self.write_probe_stderr();
            return Err(RpcError::new(wire::METHOD_NOT_FOUND, "Method not found"));
        }
        if method == "initialize" || method == "ping" {
            return Ok(());
        }
        if request.is_stateless() {
            let version = wire::stateless_version(&request.params).unwrap_or_default();
            if !self.supported_versions().iter().any(|v| v == version) {
                return Err(self.unsupported_version(version));
            }
            if !wire::is_well_formed(&request.params) {
                return Err(RpcError::new(
                    wire::INVALID_PARAMS,
                    "request _meta lacks clientCapabilities",
                ));
            }
            return Ok(());
        }
        if self.behaviour.era == Era::Stateless || method == "server/discover" {
            return Err(RpcError::new(
                wire::INVALID_PARAMS,
                "request _meta lacks protocolVersion",
            ));
        }
        if !request.session.is_initialized() {
            return Err(RpcError::new(
                wire::INVALID_PARAMS,
                "received request before initialization was complete",
            ));
        }
        Ok(())
    }

    pub(super) fn discover(&self, request: &ScriptRequest) -> RequestOutcome {
        request.mark_discovered();
        self.write_probe_stderr();
        match self.behaviour.discover {
            DiscoverBehaviour::Ok => RequestOutcome::Result(json!({
                "supportedVersions": self.supported_versions(),
                "capabilities": self.capabilities(),
                "instructions": self.behaviour.instructions,
            })),
            DiscoverBehaviour::Exit
            | DiscoverBehaviour::Silent
            | DiscoverBehaviour::Mute
            | DiscoverBehaviour::Deaf => RequestOutcome::Silence,
            DiscoverBehaviour::EmptyObject => RequestOutcome::Result(json!({})),
            DiscoverBehaviour::MethodNotFound => {
                RequestOutcome::Error(RpcError::new(wire::METHOD_NOT_FOUND, "Method not found"))
            }
            DiscoverBehaviour::InvalidParams => RequestOutcome::Error(RpcError::new(
                wire::INVALID_PARAMS,
                "Invalid request parameters",
            )),
            DiscoverBehaviour::UnsupportedVersion => {
                let requested = wire::stateless_version(&request.params).unwrap_or_default();
                RequestOutcome::Error(self.unsupported_version(requested))
            }
        }
    }

    /// Writes the configured text about the probe to stderr.
    pub(super) fn write_probe_stderr(&self) {
        let text = &self.behaviour.process.stderr_on_discover;
        if !text.is_empty() {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    pub(super) fn initialize(&self, request: &ScriptRequest) -> Result<RequestOutcome, RpcError> {
        let requested = request.params["protocolVersion"]
            .as_str()
            .unwrap_or_default();
        let refused = self.behaviour.refuse_initialize_after_discover
            && request.session.discovered.load(Ordering::SeqCst);
        if refused || self.behaviour.era == Era::Stateless {
            return Err(self.unsupported_version(requested));
        }
        let samples_with_tools = request
            .params
            .pointer("/capabilities/sampling/tools")
            .is_some();
        if self.behaviour.reject_sampling_tools && samples_with_tools {
            return Err(RpcError::new(
                wire::INVALID_PARAMS,
                "unknown field capabilities.sampling.tools",
            ));
        }
        let supported: Vec<String> = self
            .supported_versions()
            .into_iter()
            .filter(|version| version != wire::STATELESS)
            .collect();
        let version = supported
            .iter()
            .find(|version| *version == requested)
            .or(supported.first())
            .map_or_else(|| wire::LEGACY[0].to_owned(), Clone::clone);
        *lock(&request.session.initialize) = Some(request.params.clone());
        *lock(&request.session.version) = Some(version.clone());
        Ok(RequestOutcome::Result(json!({
            "protocolVersion": version,
            "capabilities": self.capabilities(),
            "serverInfo": self.server_info(),
            "instructions": self.behaviour.instructions,
        })))
    }

    /// What the client has said about itself.
    pub(super) fn client_description(&self, request: &ScriptRequest) -> Value {
        if request.is_stateless() {
            json!({
                "era": "stateless",
                "protocolVersion": request.meta(wire::META_VERSION),
                "clientInfo": request.meta(wire::META_CLIENT_INFO),
                "capabilities": request.meta(wire::META_CLIENT_CAPABILITIES),
                "name": self.behaviour.name,
            })
        } else {
            let initialize = lock(&request.session.initialize)
                .clone()
                .unwrap_or_default();
            json!({
                "era": "legacy",
                "protocolVersion": initialize["protocolVersion"],
                "agreedVersion": lock(&request.session.version).clone(),
                "clientInfo": initialize["clientInfo"],
                "capabilities": initialize["capabilities"],
                "name": self.behaviour.name,
            })
        }
    }
}
