//! The command line of a Hub, against a real one.

mod backup;
mod documents;
mod doors;
mod examples;
mod exit_codes;
mod foreign_text;
mod groups;
mod host;
mod readme;
mod real_servers;
mod served;
mod serving;
mod tenants;
mod tokens;
mod up;
mod verbs;
