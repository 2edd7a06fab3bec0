//! Command line of hermes.
