//! The command line of a Hub, against a real one.

mod backup;
mod connections;
mod documents;
mod examples;
mod exit_codes;
mod foreign_text;
mod groups;
mod host;
mod hub_process;
mod readme;
mod real_servers;
mod serve;
mod tenants;
mod tokens;
mod up;
mod verbs;
