//! The log of events.
