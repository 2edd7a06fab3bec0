//! The command line of a Hub, against a real one.

mod apply;
mod backup;
mod connections;
mod documents;
mod examples;
mod exit_codes;
mod feed;
mod foreign_text;
mod groups;
mod host;
mod hub_process;
mod mcp_servers;
mod messaging;
mod migrate;
mod nodes;
mod readme;
mod real_servers;
mod serve;
mod tenants;
mod tokens;
mod traces;
mod up;
mod verbs;
mod webhooks;
