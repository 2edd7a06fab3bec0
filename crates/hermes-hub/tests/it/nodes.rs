//! Several nodes on one PostgreSQL.

mod agents;
mod checkpoints;
mod clients;
mod cluster;
mod failover;
mod files;
mod handover;
mod idempotency;
mod leases;
mod reads;
mod requests;
mod skills;
