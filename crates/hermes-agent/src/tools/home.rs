//! Tools for what a home remembers: memories, sessions, skills and cron jobs.

pub mod cronjob;
pub mod memory;
pub mod session_search;
pub mod skills;
