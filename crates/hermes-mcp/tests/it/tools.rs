//! What servers offer, and what of it a model sees.

mod catalog;
mod names;
mod pins;
mod toolset;
