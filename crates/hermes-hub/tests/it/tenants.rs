//! Agents, their runs and their cron jobs.
pub(crate) mod agents;
pub(crate) mod documents;
pub(crate) mod runs;
pub(crate) mod scheduler;
