//! The Hub from outside.

mod agents;
mod backup;
mod clock;
mod runs;
mod state;
mod world;
