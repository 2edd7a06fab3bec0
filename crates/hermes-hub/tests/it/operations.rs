//! The operation table: every row over REST and MCP, for everybody who may and may not.
pub(crate) mod contract_examples;
pub(crate) mod member_rights;
pub(crate) mod parity;
pub(crate) mod reply_consistency;
pub(crate) mod rights;
