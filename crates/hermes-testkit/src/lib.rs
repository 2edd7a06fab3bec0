//! Test equipment: MCP servers that misbehave on demand, an authorization server, a scripted model, messaging
//! platforms, temporary homes, and eyes on processes.
//!
//! A [`Behaviour`] says what a server does. It is served on stdio by the program `testkit-stdio` and over
//! HTTP by [`HttpServer`], in the test's own process or as the program `testkit-http`. The servers write
//! their JSON-RPC by hand, so that nothing stands between a test and a malformed message.

pub mod authorization;
mod behaviour;
mod binary;
mod chaos_proxy;
mod connect_proxy;
mod database_lock;
mod grandchild;
mod home;
mod http;
mod identity_provider;
pub mod model;
mod moto;
pub mod nodes;
mod observe;
mod phoenix;
pub mod platform;
pub mod postgres;
mod record;
mod reserved_port;
mod script;
mod server_thread;
mod stdio;
mod tls_front;
mod wire;

pub use crate::reserved_port::ReservedPort;
pub use behaviour::{
    Behaviour, CallBehaviour, DiscoverBehaviour, Era, EraChange, ExitAtStart, Fault, FaultKind,
    Grandchild, HttpBehaviour, HttpTransport, ListBehaviour, OddTool, OnCancel, OversizedLine,
    ProcessBehaviour, ReplyFormat, Tls, Tool, WrongId,
};
pub use binary::{binary, binary_of};
pub use chaos_proxy::{ChaosProxy, NetworkFault, Upstream};
pub use connect_proxy::ConnectProxy;
pub use database_lock::DatabaseLock;
pub use grandchild::{DETACH, detach};
pub use home::TemporaryHome;
pub use http::{Certificates, HttpRequest, HttpServer};
pub use identity_provider::{IdTokenSigner, IdentityProvider};
pub use moto::{MotoKeys, MotoServer};
pub use observe::{
    children_named, descendants, eventually, eventually_some, process_exists, wait_for, wait_until,
    zombies,
};
pub use phoenix::PhoenixServer;
pub use record::{recorded, recorded_messages};
pub use script::{Outlet, SECRETS, ScriptSession, ServerScript};
pub use stdio::{EchoPath, serve as serve_stdio};
pub use tls_front::TlsFront;
pub use wire::{LEGACY, STATELESS};
