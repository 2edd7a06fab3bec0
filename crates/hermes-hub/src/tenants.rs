//! Tenants at work: their effective settings, their agents, their runs and cron jobs.

pub mod agents;
pub mod bots;
pub(crate) mod documents;
pub mod leases;
pub(crate) mod locks;
pub(crate) mod lookup;
pub(crate) mod provided_skills;
pub(crate) mod reserved_variables;
pub mod runs;
pub mod runtime;
pub mod scheduler;
pub(crate) mod settings;
