//! The Hub from outside.

mod state;
