//! The Hub from outside.

mod agents;
mod clock;
mod runs;
mod world;
