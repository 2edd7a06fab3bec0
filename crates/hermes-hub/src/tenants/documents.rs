//! The documents of the Hub that hold for all tenants: policy, tenant-impact configuration, specialization.

pub(crate) mod check;
pub(crate) mod effective;
pub(crate) mod impact;
pub(crate) mod merge;
pub(crate) mod policy;

pub(crate) use effective::{DocumentDefaults, EffectiveDocuments};
