//! A Hermes home's settings: where things are, what `config.yaml` and `.env` say, and which values are secret.
//!
//! Everything here is read from a [`Home`] that the caller passes in. Nothing in this crate keeps global state, except
//! for what exports the traces of the process ([`trace_context`]); nothing prints, or uses a network.

pub mod beneath;
pub mod bot_lock;
pub mod bridge;
pub mod clock;
pub mod file;
pub mod gateway;
pub mod home;
pub mod model;
pub mod private_file;
pub mod public_address;
pub mod random;
pub mod redact;
pub mod reference;
pub mod secret;
pub mod secret_store;
pub mod server;
pub mod settings;
pub mod speech;
pub mod sync;
pub mod trace_context;
pub mod variables;

mod fields;
mod hex;
mod image_type;
mod log_file;
mod nearest;
mod program;
mod warning;
mod yaml;

pub use bridge::{BridgeHttpSettings, BridgeSettings};
pub use file::{ConfigFile, ConfigFileError};
pub use gateway::{
    AccessSettings, ApiServerSettings, BotPolicy, BusyInputMode, ChatRules, CommandAccess,
    GatewaySettings, GroupSettings, HomeChannel, IdList, Platform, PlatformSettings,
    ProxyVariables, ReplyToMode, ResetMode, ResetPolicy, ResetSettings, UnauthorizedDm,
    WebhookSettings,
};
pub use hex::{from_hex, to_hex};
pub use home::{Home, HomeError, ProfileName};
pub use image_type::{detect_image_type, is_image_type};
pub use log_file::LogFile;
pub use model::*;
pub use nearest::nearest;
pub use private_file::replace_file;
pub use redact::Redactor;
pub use reference::{NamedReference, ReferenceError, ReferencePolicy, ReferenceTemplate};
pub use secret::{Secret, mask};
pub use secret_store::{SecretLocation, SecretStore, SecretStoreError};
pub use server::*;
pub use settings::*;
pub use speech::{SpeechCommand, SpeechEngine, SpeechService, SpeechSettings};
pub use variables::{Variables, remove_variable, write_variable};
pub use warning::Warning;
pub use yaml::{
    MAX_BYTES as LARGEST_CONFIG, YamlError, find_key as find_yaml_key, parse as read_yaml,
    too_long as config_too_long,
};
