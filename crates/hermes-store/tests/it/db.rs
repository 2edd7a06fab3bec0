//! Databases: opened, made, filled up and refused.

mod open;
mod state;
