//! The Hub from outside.
