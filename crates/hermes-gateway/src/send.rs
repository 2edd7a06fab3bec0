//! Sends a message to a chat of a platform, once, without a running gateway.
