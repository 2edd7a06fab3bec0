//! Several nodes on one PostgreSQL.

mod agents;
mod bots;
mod capacity;
mod checkpoints;
mod clients;
mod cluster;
mod events;
mod failover;
mod files;
mod handover;
mod idempotency;
mod leases;
mod outages;
mod people;
mod poolers;
mod reads;
mod replicas;
mod requests;
mod skills;
