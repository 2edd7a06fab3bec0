//! Who calls.
pub(crate) mod authenticator;
