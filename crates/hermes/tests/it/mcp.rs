//! `hermes mcp …`.

pub(crate) mod config;
pub(crate) mod inspect;
pub(crate) mod login;
pub(crate) mod requests;
pub(crate) mod sandbox;
pub(crate) mod serve;
