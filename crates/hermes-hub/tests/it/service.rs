//! What operations do.
pub(crate) mod audit;
pub(crate) mod cron;
pub(crate) mod damaged_config;
pub(crate) mod env;
pub(crate) mod etags;
pub(crate) mod home_symlinks;
pub(crate) mod hostile_homes;
pub(crate) mod hostile_input;
pub(crate) mod runs;
pub(crate) mod shares;
pub(crate) mod sync;
pub(crate) mod tenants;
