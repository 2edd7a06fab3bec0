//! The command line of a Hub, against a real one.

mod backup;
mod documents;
mod exit_codes;
mod groups;
mod readme;
mod served;
mod serving;
mod tenants;
mod tokens;
mod up;
mod verbs;
