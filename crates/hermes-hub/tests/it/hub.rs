//! The core: recovery after a crash, deferred work, quotas, agents that are always on.
pub(crate) mod always_on;
pub(crate) mod crash_recovery;
pub(crate) mod home_quota;
pub(crate) mod lifecycle;
pub(crate) mod tenants;
