//! The Hub from outside.

mod client;
mod site;
mod state;
mod surface;
