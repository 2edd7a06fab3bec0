//! Test equipment: MCP servers that misbehave on demand, an authorization server, a scripted model, messaging
//! platforms, temporary homes, and eyes on processes.
//!
//! A [`Behaviour`] says what a server does. It is served on stdio by the program `testkit-stdio` and over
//! HTTP by [`HttpServer`], in the test's own process or as the program `testkit-http`. The servers write
//! their JSON-RPC by hand, so that nothing stands between a test and a malformed message.

pub mod authorization;
mod behaviour;
mod binary;
mod database_lock;
mod grandchild;
mod home;
mod http;
mod kept_port;
pub mod model;
mod observe;
pub mod platform;
mod record;
mod script;
mod server_thread;
mod stdio;
mod wire;

pub use behaviour::{
    Behaviour, Calls, Discover, Era, EraChange, ExitAtStart, Fault, Grandchild, Http,
    HttpTransport, Lists, OddTool, OnCancel, OversizedLine, Process, Reply, Tls, Tool, Trouble,
    WrongId,
};
pub use binary::{binary, binary_of};
pub use database_lock::DatabaseLock;
pub use grandchild::{DETACH, detach};
pub use home::TemporaryHome;
pub use http::{Certificates, HttpRequest, HttpServer};
pub use kept_port::KeptPort;
pub use observe::{children_named, descendants, eventually, process_exists, wait_until, zombies};
pub use record::{recorded, recorded_messages};
pub use script::{Outlet, SECRETS, Script, Session};
pub use stdio::{EchoPath, serve as serve_stdio};
pub use wire::{LEGACY, STATELESS};
