//! The Hub from outside.

mod backup;
mod state;
